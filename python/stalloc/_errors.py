"""What this package raises and warns with."""


class StallocError(RuntimeError):
    """stalloc cannot do what was asked; the message says why and what to do about it."""


class SettingError(StallocError, ValueError):
    """A setting is unknown or has an invalid value."""


class StallocWarning(UserWarning):
    """Training goes on, but not as requested."""
