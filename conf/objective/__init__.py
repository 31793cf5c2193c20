"""Group `objective`: targets and losses, and the tasks that they train."""

from tiryns.conf.objective import contrastive, labelled, pretraining
from tiryns.conf.registry import register, register_task

__all__ = ["contrastive", "labelled", "pretraining"]

register(
    "objective", mlm=pretraining.MaskedLanguageModeling, distillation=pretraining.Distillation,
    enhanced_mlm=pretraining.EnhancedMaskedLanguageModeling, diffusion=pretraining.MaskedDiffusion,
    rtd=pretraining.ReplacedTokenDetection, clm=pretraining.CausalLanguageModeling,
    hybrid=pretraining.HybridLanguageModeling, contrastive=contrastive.Contrastive,
    classification=labelled.SequenceClassification, token_classification=labelled.TokenClassification,
    question_answering=labelled.QuestionAnswering, multiple_choice=labelled.MultipleChoice,
    joint_tagging=labelled.JointTagging, vision_language=labelled.VisionLanguage,
    late_interaction=contrastive.LateInteraction, ranking=labelled.Ranking, sparse=contrastive.Sparse,
)  # fmt: skip

register_task("contrastive", "tiryns.runner.tasks.contrastive.Contrastive")
register_task("classification", "tiryns.runner.tasks.classification.Classification")
register_task("token_classification", "tiryns.runner.tasks.token_classification.TokenClassification")
register_task("question_answering", "tiryns.runner.tasks.question_answering.QuestionAnswering")
register_task("vision_language", "tiryns.runner.tasks.vision_language.VisionLanguage")
register_task("multiple_choice", "tiryns.runner.tasks.multiple_choice.task.MultipleChoice")
register_task("joint_tagging", "tiryns.runner.tasks.token_classification.JointTagging")
register_task("late_interaction", "tiryns.runner.tasks.late_interaction.LateInteraction")
register_task("ranking", "tiryns.runner.tasks.ranking.task.Ranking")
register_task("sparse", "tiryns.runner.tasks.sparse.Sparse")
