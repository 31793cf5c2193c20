"""The keys of the JSON documents that commands print; behind a dot stands one of a part, or of a list's rows."""

DOCUMENTS = {
    "runs": """
        folder state started ended step max_steps seconds monitor mode results overrides plateau
        branch_of failure error
    """,
    "runs show": """
        folder state step results overrides recipe settings.name settings.value settings.default
        restarts rewinds command go_on_with
    """,
    "runs compare": """
        ranked_by.figure ranked_by.direction settings.settings settings.kind settings.best settings.mean
        settings.standard_deviation settings.interval settings.tests settings.seeds settings.runs runs.folder
        runs.state runs.step runs.seed runs.best runs.settings runs.figures runs.failure runs.note notes
    """,
    "report": "ranked_by settings runs notes",
    "info": "groups.group groups.about groups.default groups.options settings",
    "info WORD": "recipe chosen fields.key fields.value fields.source fields.type fields.about",
    "plan": """
        dataset.described dataset.sequences dataset.fingerprints dataset.sampler dataset.cache phases.name
        phases.steps phases.tokens phases.max_length phases.batch phases.masking phases.shares phases.own samples.epoch
        samples.index samples.text lengths.histogram.from lengths.histogram.to lengths.histogram.share
        lengths.min lengths.median lengths.max lengths.mean lengths.fill lengths.packed
        lengths.micro_batches optimization.groups.name optimization.groups.parameters optimization.groups.tensors
        optimization.groups.example optimization.groups.lr optimization.groups.weight_decay optimization.scheduler
        optimization.phases optimization.schedule model ranks budget steps epochs memory.weights
        memory.gradients memory.optimizer memory.activations memory.together time.step_seconds
        time.seconds time.flops_per_step time.flops time.tokens_per_second time.mfu time.precision
        time.device
    """,
    "plan without data": """
        model parameters.total parameters.without_embeddings steps tokens flops phases.name phases.steps
        phases.tokens phases.length phases.flops gpus.name gpus.peak_tflops gpus.hours gpus.tokens published_hours
        points.step points.tokens points.phase points.lr points.weight_decay points.batch points.length
        points.masking_rate points.theta points.local_theta
    """,
    "info scale": "scales",
    "schedule": """
        steps lr phases.name phases.kind phases.first_step phases.last_step phases.first_lr
        phases.last_lr rates.step rates.lr
    """,
    "audit": "runs same steps first_difference.step first_difference.hashes",
    "order --steps": "step place epoch index source file row part",
    "order --find": """
        trained_steps texts.text texts.found.source texts.found.file texts.found.row texts.found.set
        texts.found.sequences texts.found.occurrences.step texts.found.occurrences.place
        texts.found.occurrences.epoch texts.found.occurrences.index
    """,
    "order RUN RUN": """
        steps same_data different_steps different_masks shared_of_a_step samples shared_samples
    """,
    "verify": "run unchanged problems signature",
    "reproduce": """
        run rebuilt verdict steps.compared steps.last steps.whole first_difference
        largest_loss_difference.step largest_loss_difference.absolute largest_loss_difference.relative
        largest_weight_difference files.identical files.different reasons
    """,
    "predict": "predictions.text predictions.predicted figures",
    "ladder": """
        folder figure of page widths.width widths.size widths.rate widths.interval widths.loss widths.deviation
        widths.problem widths.runs.seed widths.runs.rate widths.runs.loss transfer law predictions coordinates
    """,
    "mine": "target rows queries passages fewer.scores fewer.passages settings",
    "push": "model target",
    "consolidate": "checkpoint target",
    "average": "target method models.path models.weight models.digest",
    "prepare": "folder samples",
    "prepare corpus": "folder submitted sets stores",
    "new": "folder package files",
    "doctor": """
        processor.name processor.architecture processor.features processor.cores processor.usable_cores
        processor.quota memory.total memory.available gpus driver.version driver.gpus disk.outputs disk.cache
        slurm.job slurm.nodes slurm.tasks slurm.sbatch compiler versions extras.extra extras.for
        extras.installed extras.missing chosen.accelerator chosen.precision chosen.attention
        chosen.processes chosen.threads reasons problems hints
    """,
    "version": "tiryns torch lightning transformers hydra-core",
    "evaluate": "model precision layout micro_batch_tokens micro_batch_size interval sets",
    "judge": "metric direction against error note clear folder page comparisons",
}
"""By command and what it is asked for; `docs/evaluating.md` and `docs/judging.md` have all keys of the last two."""

LISTS = ("runs", "order --steps")
"""Documents that are lists of objects with these keys."""
