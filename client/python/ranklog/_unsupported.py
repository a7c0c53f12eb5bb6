"""What W&B's package has and this one has not. client/python/unsupported.md is the page for users.

Each name has what to do instead, or nothing. Using one warns once and does nothing.
"""

# Functions that return None, because a program uses the result at once.
NONE = ("restore", "use_model")

MODULE_NAMES: dict[str, str] = {
    "Audio": "save the file by run.save()",
    "Video": "save the file by run.save()",
    "Object3D": "save the file by run.save()",
    "Molecule": "save the file by run.save()",
    "Plotly": "log an Image or Html",
    "Graph": "",
    "Classes": "",
    "EvalTable": "log a Table",
    "JoinedTable": "log a Table",
    "ArtifactTTL": "",
    "box3d": "",
    "plot_table": "log a Table",
    "sweep": "",
    "agent": "",
    "controller": "",
    "launch": "",
    "tensorboard": "log the values by run.log()",
    "gym": "",
    "restore": "ranklog artifacts get",
    "use_model": "use_artifact(name).download()",
    "api": "use Api()",
    "env": "",
    "agents": "",
    "catboost": "",
    "lightgbm": "log the values by run.log()",
    "xgboost": "log the values by run.log()",
    "sacred": "",
    "tensorflow": "",
    "pin_config_keys": "",
    "termsetup": "",
    "trigger": "",
    "visualize": "",
    "watch": "log a Histogram of the gradients",
    "unwatch": "",
    "jupyter": "",
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
    "write_logs": "",
}

ARTIFACT_NAMES: dict[str, str] = {
    **dict.fromkeys(("manifest",), ""),
    **dict.fromkeys(("get", "get_entry", "get_path", "file", "files", "checkout", "verify", "json_encode"), "use download()"),
    **dict.fromkeys(("delete", "link", "unlink", "logged_by", "used_by", "remove", "save", "finalize", "new_draft"), ""),
    **dict.fromkeys(("get_added_local_path_name",), ""),
}

# Facts that only the tracker knows.
ARTIFACT_FACTS: dict[str, object] = {
    **dict.fromkeys(("version", "id", "digest", "digest_algorithm", "qualified_name", "collection", "commit_hash", "url", "ttl")),
    **dict.fromkeys(("entity", "project", "created_at", "updated_at", "linked_at", "history_step", "distributed_id", "use_as")),
    **dict.fromkeys(("source_artifact", "source_collection", "source_entity", "source_name", "source_project")),
    **dict.fromkeys(("source_qualified_name", "source_version")),
    **{"size": 0, "file_count": 0, "is_link": False, "linked_artifacts": ()},
}

TABLE_NAMES: dict[str, str] = dict.fromkeys(("cast", "add_computed_columns", "set_pk", "set_fk", "index_ref"), "")
