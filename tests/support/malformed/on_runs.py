"""Subcommands on damaged run folders, which are called as in `runs`."""

ON_RUNS: dict[str, list[str]] = {
    "order r_status_empty --steps 1": ["r_status_empty", "/status.json' is damaged: it is not"],
    "order r_status_cut --steps 1": ["r_status_cut", "/status.json' is damaged: it is not"],
    "order r_status_list --steps 1": ["r_status_list", "/status.json' is damaged: it is not"],
    "order r_status_nested --steps 1": ["r_status_nested", "/status.json' is damaged: it is not"],
    "order r_status_binary --steps 1": ["r_status_binary", "/status.json' is damaged: it is not"],
    "audit r_order_gone run": ["r_order_gone", "has no order.txt: not a run"],
    "verify r_manifest_gone": ["r_manifest_gone", "has no manifest.json: it is no"],
    "reproduce r_manifest_gone": ["r_manifest_gone", "cannot be rebuilt: it has no"],
    "verify r_manifest_cut": ["r_manifest_cut", "has no manifest.json: it is no"],
    "reproduce r_manifest_cut": ["r_manifest_cut", "/manifest.json' is damaged, or no manifest"],
    "verify r_manifest_list": ["r_manifest_list", "has no manifest.json: it is no"],
    "reproduce r_manifest_list": ["r_manifest_list", "/manifest.json' is damaged, or no manifest"],
    "verify r_manifest_empty": ["r_manifest_empty", "has no manifest.json: it is no"],
    "reproduce r_manifest_empty": ["r_manifest_empty", "/manifest.json' is damaged, or no manifest"],
    "reproduce r_manifest_config": ["r_manifest_config", "/manifest.json' is damaged: a part of"],
    "reproduce r_manifest_steps": ["r_manifest_steps", "/manifest.json' is damaged, or no manifest"],
    "predict r_model_gone 'a [MASK]'": ["r_model_gone", "the run has left no model/"],
    "evaluate r_model_gone herons.txt --out e_r_model_gone": ["r_model_gone", "the run has left no model/"],
    "push r_model_gone pushed_r_model_gone": ["r_model_gone", "there is no exported model in"],
    "predict r_model_config 'a [MASK]'": ["r_model_config", "expected a run folder with the"],
    "evaluate r_model_config herons.txt --out e_r_model_config": [
        "r_model_config",
        "expected a run folder with the",
    ],
    "predict r_model_weights 'a [MASK]'": ["r_model_weights", "/model': its weights are damaged, or"],
    "evaluate r_model_weights herons.txt --out e_r_model_weights": [
        "r_model_weights",
        "/model': its weights are damaged, or",
    ],
    "predict r_model_tokenizer 'a [MASK]'": ["r_model_tokenizer", "expected a run folder with the"],
    "evaluate r_model_tokenizer herons.txt --out e_r_model_tokenizer": [
        "r_model_tokenizer",
        "expected a run folder with the",
    ],
    "report r_file": ["r_file", "there is no run folder 'r_file"],
    "audit r_file run": ["r_file", "has no order.txt: not a run"],
    "order r_file --steps 1": ["r_file", "there is no run folder 'r_file"],
    "verify r_file": ["r_file", "has no manifest.json: it is no"],
    "predict r_file 'a [MASK]'": ["r_file", "expected a run folder with the"],
    "evaluate r_file herons.txt --out e_r_file": ["r_file", "expected a run folder with the"],
    "push r_file pushed_r_file": ["r_file", "there is no exported model in"],
    "consolidate r_file cons_r_file": ["r_file", "expected <run>/checkpoints/step-<n>.ckpt or a run folder"],
    "report r_empty": ["r_empty", "is no run folder: it holds"],
    "audit r_empty run": ["r_empty", "has no order.txt: not a run"],
    "order r_empty --steps 1": ["r_empty", "is no run folder: it holds"],
    "verify r_empty": ["r_empty", "has no manifest.json: it is no"],
    "predict r_empty 'a [MASK]'": ["r_empty", "expected a run folder with the"],
    "evaluate r_empty herons.txt --out e_r_empty": ["r_empty", "expected a run folder with the"],
    "push r_empty pushed_r_empty": ["r_empty", "there is no exported model in"],
    "consolidate r_empty cons_r_empty": [
        "r_empty",
        "expected <run>/checkpoints/step-<n>.ckpt or a run folder",
    ],
    "resume=c_empty trainer.max_steps=3": [
        "c_empty",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "resume=c_empty/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_empty",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "consolidate c_empty cons_c_empty": [
        "every checkpoint in 'c_empty' is damaged",
        "step-00000002.ckpt: File is not a zip file",
    ],
    "resume=c_cut trainer.max_steps=3": ["c_cut", "has no usable checkpoint, so nothing can branch from it"],
    "resume=c_cut/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_cut",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "consolidate c_cut cons_c_cut": [
        "every checkpoint in 'c_cut' is damaged",
        "step-00000002.ckpt: File is not a zip file",
    ],
    "resume=c_flipped trainer.max_steps=3": [
        "c_flipped",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "resume=c_flipped/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_flipped",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "consolidate c_flipped cons_c_flipped": [
        "every checkpoint in 'c_flipped' is damaged",
        "step-00000002.ckpt: archive/data",
    ],
    "resume=c_text trainer.max_steps=3": [
        "c_text",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "resume=c_text/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_text",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "consolidate c_text cons_c_text": [
        "every checkpoint in 'c_text' is damaged",
        "step-00000002.ckpt: File is not a zip file",
    ],
    "resume=c_pickle trainer.max_steps=3": [
        "c_pickle",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "resume=c_pickle/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_pickle",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "consolidate c_pickle cons_c_pickle": [
        "every checkpoint in 'c_pickle' is damaged",
        "step-00000002.ckpt: File is not a zip file",
    ],
    "resume=c_zip trainer.max_steps=3": [
        "c_zip/checkpoints/step-00000002.ckpt'",
        "is no checkpoint of a run, or holds more than",
    ],
    "resume=c_zip/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_zip/checkpoints/step-00000001.ckpt'",
        "is no checkpoint of a run, or holds more than",
    ],
    "consolidate c_zip cons_c_zip": [
        "c_zip/checkpoints/step-00000002.ckpt'",
        "holds an object, and only plain values",
    ],
    "resume=c_list trainer.max_steps=3": [
        "c_list/checkpoints/step-00000002.ckpt'",
        "is no checkpoint of a run, or holds more than",
    ],
    "resume=c_list/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_list/checkpoints/step-00000001.ckpt'",
        "is no checkpoint of a run, or holds more than",
    ],
    "consolidate c_list cons_c_list": [
        "c_list/checkpoints/step-00000002.ckpt'",
        "is no checkpoint of a run: it has no weights",
    ],
    "resume=c_object trainer.max_steps=3": [
        "c_object/checkpoints/step-00000002.ckpt'",
        "is no checkpoint of a run: it has no weights",
    ],
    "resume=c_object/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_object/checkpoints/step-00000001.ckpt'",
        "is no checkpoint of a run: it has no weights",
    ],
    "consolidate c_object cons_c_object": [
        "c_object/checkpoints/step-00000002.ckpt'",
        "is no checkpoint of a run: it has no weights",
    ],
    "resume=c_state_list trainer.max_steps=3": [
        "c_state_list/checkpoints/step-00000002.ckpt'",
        "is no checkpoint of a run: it has no weights",
    ],
    "resume=c_state_list/checkpoints/step-00000001.ckpt trainer.max_steps=3": [
        "c_state_list/checkpoints/step-00000001.ckpt'",
        "is no checkpoint of a run: it has no weights",
    ],
    "consolidate c_state_list cons_c_state_list": [
        "c_state_list/checkpoints/step-00000002.ckpt'",
        "is no checkpoint of a run: it has no weights",
    ],
    "resume=c_gone trainer.max_steps=3": [
        "c_gone",
        "has no usable checkpoint, so nothing can branch from it",
    ],
    "resume=c_gone/checkpoints/step-00000001.ckpt": [
        "there is no checkpoint 'c_gone/checkpoints/step-00000001.ckpt'; there are: none"
    ],
    "consolidate c_gone cons_c_gone": ["there is no checkpoint in 'c_gone'"],
    "resume=run trainer.max_steps=3 model.hidden_size=64": [
        "the checkpoint is of another model: '",
        "has shape",
    ],
    "resume=run/checkpoints/step-00000001.ckpt trainer.max_steps=3 model.hidden_size=64": [
        "the checkpoint is of another model: '",
        "has shape",
    ],
}
