"""The files of the promises, and the tests nearest to each: those run first that fail soonest.

A test is named as pytest names it. Nothing that starts many processes is here: a mutant is to be judged in seconds.
"""

EPOCHS, GROWING = "tests/samplers/test_whole_epochs.py", "tests/samplers/test_growing.py"
PHASES = "tests/data/test_phases.py::test_steps_have_the_sizes_lengths_rates_and_sources_asked_for"
WITHOUT = "tests/data/test_without.py::test_order_has_no_step_of_a_sample_that_is_left_out"
HINT = "tests/callbacks/test_divergence.py::test_last_good_checkpoint_is_named_for_a_shell"
DIFFERS, GOLDEN = "tests/runs/test_what_differs.py", "tests/runs/test_golden.py"
EXAMPLES = (
    "tests/documented/face/test_examples.py::test_examples_of_docstrings_hold[tiryns.runner.data.batches]"
)
SAMPLERS = ("tests/samplers/test_global_batches.py", "tests/documented/data/test_samplers.py", GOLDEN)
OBJECTIVES = ("tests/objectives/test_base.py", "tests/documented/training/test_collators.py", GOLDEN)
TASKS = (
    "tests/objectives/labelled/test_finetuning.py",
    "tests/documented/training/test_task_collators.py",
    "tests/objectives/labelled/test_label_options.py",
    "tests/objectives/labelled/test_joint_tagging.py",
)
RUNS = (
    GOLDEN,
    "tests/runs/test_train.py::test_resumed_run_is_bitwise_the_undisturbed_one",
    "tests/runs/test_train.py::test_run_killed_behind_its_last_step_still_validates_once",
    "tests/runs/test_train.py::test_loss_does_not_depend_on_micro_batches_or_workers",
)
"""Whole runs, in process."""
REFUSED = (
    "tests/runs/test_train.py::test_damaged_checkpoint_is_passed_over",
    "tests/runs/test_train.py::test_run_with_nothing_but_damaged_checkpoints_does_not_begin_again",
    "tests/runs/test_train.py::test_checkpoint_of_another_model_is_refused",
    "tests/runs/test_data_order.py::test_resume_with_changed_data_can_be_allowed",
    "tests/runs/test_train.py::test_diverging_run_stops_and_names_step_and_samples",
)
"""Runs, in process, that cannot go on as they were."""

NEAREST: dict[str, tuple[str, ...]] = {
    "runner/samplers/base.py": SAMPLERS,
    "runner/samplers/shuffled.py": (EPOCHS, GROWING, *SAMPLERS),
    "runner/samplers/split_modality.py": (EPOCHS, *SAMPLERS),
    "runner/samplers/modality_batches.py": ("tests/samplers/test_split_modality.py", EPOCHS, *SAMPLERS),
    "runner/order/keyed.py": ("tests/order/test_keyed.py",),
    "runner/loaders/multi_epoch.py": (
        "tests/loaders/test_multi_epoch.py",
        "tests/documented/data/test_multi_epoch.py",
    ),
    "runner/order/partition.py": ("tests/order/test_partition.py", GOLDEN),
    "runner/order/packing.py": ("tests/order/test_packing.py",),
    "runner/order/ranges.py": ("tests/order/test_packing.py",),
    "runner/loaders/microbatches.py": ("tests/loaders/test_microbatches.py",),
    "runner/data/batches.py": ("tests/data/test_ramps.py", EXAMPLES, *RUNS, DIFFERS),
    "runner/data/module.py": ("tests/data/test_module.py", PHASES, GOLDEN, DIFFERS),
    "runner/loop/assembly.py": (*RUNS, WITHOUT, DIFFERS, "tests/data/text/test_without_mask.py"),
    "runner/modules/training.py": (
        "tests/modules/test_training.py",
        "tests/data/mixture/test_runs.py::test_losses_of_sources_are_those_of_the_steps_that_are_logged",
        *RUNS,
        *REFUSED,
        DIFFERS,
    ),
    "runner/models/packed/dropout_keys.py": (
        GOLDEN,
        "tests/models/packed/test_dropout_keys.py",
        "tests/models/packed/test_embedding_noise.py",
        DIFFERS,
    ),
    "runner/launch/resume.py": ("tests/launch/test_resume.py",),
    "runner/checkpoints/callback.py": ("tests/checkpoints/test_callback.py", HINT, *RUNS, *REFUSED),
    "runner/run/audit.py": (
        GOLDEN,
        "tests/runs/test_data_order.py::test_audit_names_the_first_step_that_differs",
        "tests/runs/test_data_order.py::test_a_log_is_cut_behind_a_step",
    ),
    "runner/optim/schedule/phases.py": (
        "tests/optim/schedule/test_schedule.py",
        "tests/documented/training/test_schedules.py",
    ),
    "runner/objectives/base.py": OBJECTIVES,
    "runner/objectives/rows.py": (*OBJECTIVES, "tests/documented/training/test_task_collators.py"),
    "runner/objectives/mlm.py": (
        "tests/objectives/test_mlm.py",
        "tests/objectives/test_enhanced_mlm.py",
        "tests/models/pretraining/test_replaced_tokens.py",
        *OBJECTIVES,
    ),
    "runner/objectives/diffusion.py": ("tests/objectives/test_diffusion.py", *OBJECTIVES),
    "runner/objectives/labelled/finetuning.py": TASKS,
    "runner/objectives/labelled/classification.py": (*TASKS, "tests/models/distillation/test_classifier.py"),
    "runner/objectives/labelled/token_classification.py": TASKS,
    "runner/objectives/labelled/question_answering.py": TASKS,
}
"""Tests by file, both from the top of the repository."""
