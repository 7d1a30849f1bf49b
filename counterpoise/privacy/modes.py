"""The three modes by name: plain, masks, bfv."""

from __future__ import annotations

from typing import Any

from counterpoise.privacy.plain import PlainClient, PlainSum
from counterpoise.privacy.protocol import SecureSum, SumClient
from counterpoise.privacy.settings import PrivacySettings

# Packages of the other modes are imported only where a config asks for them.


def server_side(settings: PrivacySettings) -> SecureSum:
    settings.check_installed()
    if settings.histogram == "masks":
        from counterpoise.privacy.masks import MaskedSum

        return MaskedSum()
    if settings.histogram == "bfv":
        from counterpoise.privacy.bfv import EncryptedSum

        return EncryptedSum()
    return PlainSum()


def client_side(settings: PrivacySettings, **known: Any) -> SumClient:
    """The client's side of a mode; `known` is what a `SumClient` holds."""
    settings.check_installed()
    if settings.histogram == "masks":
        from counterpoise.privacy.masks import MaskedClient

        return MaskedClient(epsilon=settings.epsilon, **known)
    if settings.histogram == "bfv":
        from counterpoise.privacy.bfv import EncryptedClient

        return EncryptedClient(epsilon=settings.epsilon, **known)
    return PlainClient(epsilon=settings.epsilon, **known)
