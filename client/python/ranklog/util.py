"""The one function of wandb.util that training scripts use."""

import random
import string


def generate_id(length: int = 8) -> str:
    """A new run id."""
    return "".join(random.SystemRandom().choices(string.ascii_lowercase + string.digits, k=length))
