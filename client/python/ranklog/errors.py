"""Exceptions, with the names of W&B's. A training sees them only for mistakes for which W&B's package raises them, too."""


class Error(Exception):
    """The base of all."""


class UsageError(Error):
    """A call that cannot work, such as `log` on a finished run."""


class ConfigError(Error):
    """A key of the config got another value without `allow_val_change`."""


class CommError(Error):
    """Never raised: the network is the daemon's. Here for `except wandb.errors.CommError`."""


class AuthenticationError(CommError):
    """Never raised, as its base."""


class UnsupportedError(UsageError):
    """Never raised: what is not supported warns."""
