"""Subcommands on damaged run folders, which are called as in `runs`."""

NO_RUN, NO_MODEL = "is no run folder: it holds", "expected a run folder with the"
NO_CHECKPOINT = "expected <run>/checkpoints/step-<n>.ckpt or a run folder"
NOTHING, NO_ZIP = "has no usable checkpoint, so nothing can branch from it", "File is not a zip file"
FOREIGN, NO_WEIGHTS = (
    "is no checkpoint of a run, or holds more than",
    "is no checkpoint of a run: it has no weights",
)

ON_RUNS: dict[str, list[str]] = {
    **{
        f"order r_status_{how} --steps 1": [f"r_status_{how}", "/status.json' is damaged: it is not"]
        for how in ("empty", "cut", "list", "nested", "binary")
    },
    "audit r_order_gone run": ["r_order_gone", "has no order.txt: not a run"],
    "reproduce r_manifest_gone": ["r_manifest_gone", "cannot be rebuilt: it has no"],
    **{
        f"verify {run}": [run, "has no manifest.json: it is no"]
        for run in (*(f"r_manifest_{how}" for how in ("gone", "cut", "list", "empty")), "r_file", "r_empty")
    },
    **{
        f"reproduce r_manifest_{how}": [f"r_manifest_{how}", "/manifest.json' is damaged, or no manifest"]
        for how in ("cut", "list", "empty", "steps")
    },
    "reproduce r_manifest_config": ["r_manifest_config", "/manifest.json' is damaged: a part of"],
    "report r_file": ["r_file", "there is no run folder 'r_file"],
    "order r_file --steps 1": ["r_file", "there is no run folder 'r_file"],
    "report r_empty": ["r_empty", NO_RUN],
    "order r_empty --steps 1": ["r_empty", NO_RUN],
    **{f"audit {run} run": [run, "has no order.txt: not a run"] for run in ("r_file", "r_empty")},
    **{f"consolidate {run} cons_{run}": [run, NO_CHECKPOINT] for run in ("r_file", "r_empty")},
    **{
        f"push {run} pushed_{run}": [run, "there is no exported model in"]
        for run in ("r_model_gone", "r_file", "r_empty")
    },
    "resume=c_gone trainer.max_steps=3": ["c_gone", NOTHING],
    "resume=c_gone/checkpoints/step-00000001.ckpt": [
        "there is no checkpoint 'c_gone/checkpoints/step-00000001.ckpt'; there are: none"
    ],
    "consolidate c_gone cons_c_gone": ["there is no checkpoint in 'c_gone'"],
    **{
        f"resume=run{point} trainer.max_steps=3 model.hidden_size=64": [
            "the checkpoint is of another model: '",
            "has shape",
        ]
        for point in ("", "/checkpoints/step-00000001.ckpt")
    },
}

for run, why in {
    "r_model_gone": "the run has left no model/", "r_model_config": NO_MODEL, "r_model_tokenizer": NO_MODEL,
    "r_model_weights": "/model': its weights are damaged, or", "r_file": NO_MODEL, "r_empty": NO_MODEL,
}.items():  # fmt: skip
    ON_RUNS[f"predict {run} 'a [MASK]'"] = ON_RUNS[f"evaluate {run} herons.txt --out e_{run}"] = [run, why]

for run, why in {
    "c_empty": NO_ZIP, "c_cut": NO_ZIP, "c_flipped": "archive/data", "c_text": NO_ZIP, "c_pickle": NO_ZIP,
}.items():  # fmt: skip
    ON_RUNS[f"resume={run} trainer.max_steps=3"] = [run, NOTHING]
    ON_RUNS[f"resume={run}/checkpoints/step-00000001.ckpt trainer.max_steps=3"] = [run, NOTHING]
    damage = [f"every checkpoint in {run!r} is damaged", f"step-00000002.ckpt: {why}"]
    ON_RUNS[f"consolidate {run} cons_{run}"] = damage

for run, (resumed, exported) in {
    "c_zip": (FOREIGN, "holds an object, and only plain values"), "c_list": (FOREIGN, NO_WEIGHTS),
    "c_object": (NO_WEIGHTS, NO_WEIGHTS), "c_state_list": (NO_WEIGHTS, NO_WEIGHTS),
}.items():  # fmt: skip
    first, newest = (f"{run}/checkpoints/step-{step:08d}.ckpt" for step in (1, 2))
    ON_RUNS[f"resume={run} trainer.max_steps=3"] = [f"{newest}'", resumed]
    ON_RUNS[f"resume={first} trainer.max_steps=3"] = [f"{first}'", resumed]
    ON_RUNS[f"consolidate {run} cons_{run}"] = [f"{newest}'", exported]
