"""What W&B's package has and this one has not. client/python/unsupported.md is the page for users.

Each name has what to do instead, or nothing. Using one warns once and does nothing.
"""

MODULE_NAMES: dict[str, str] = {
    "Audio": "save the file by run.save()",
    "Video": "save the file by run.save()",
    "Object3D": "save the file by run.save()",
    "Molecule": "save the file by run.save()",
    "Plotly": "log an Image or Html",
    "Graph": "",
    "Classes": "",
    "box3d": "",
    "plot": "log a Table",
    "plot_table": "log a Table",
    "sweep": "",
    "agent": "",
    "controller": "",
    "launch": "",
    "tensorboard": "log the values by run.log()",
    "gym": "",
    "integration": "see ranklog.integrations",
    "restore": "ranklog artifacts get",
    "watch": "log a Histogram of the gradients",
    "unwatch": "",
    "sklearn": "",
    "keras": "",
    "jupyter": "",
    "apis": "",
    "link_model": "",
    "require": "",
}

RUN_METHODS: dict[str, str] = {
    "watch": "log a Histogram of the gradients",
    "unwatch": "",
    "restore": "ranklog artifacts get",
    "link_artifact": "",
    "link_model": "",
    "use_model": "ranklog artifacts get",
    "upsert_artifact": "use log_artifact(), with incremental=True",
    "finish_artifact": "",
    "display": "",
    "to_html": "",
    "status": "",
    "pin_config_keys": "",
    "get_project_url": "",
    "get_sweep_url": "",
}

ARTIFACT_NAMES: dict[str, str] = {
    **dict.fromkeys(("version", "id", "digest", "qualified_name", "source_name", "entity", "project", "manifest", "ttl", "size"), ""),
    **dict.fromkeys(("get", "get_entry", "get_path", "file", "files", "checkout", "verify"), "use download()"),
    **dict.fromkeys(("delete", "link", "logged_by", "used_by", "remove", "save", "finalize"), ""),
}
