from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from deerflow.errors import UsageError
from deerflow.gateway.auth.passwords import MAX_LENGTH, MIN_LENGTH, Passwords, check_password


async def test_a_password_fits_to_its_hash_alone() -> None:
    passwords = Passwords()
    hash = await passwords.hash("correct horse")
    assert hash.startswith("$argon2id$")
    assert await passwords.verify(hash, "correct horse")
    assert not await passwords.verify(hash, "correct horse ")
    assert not await passwords.verify(None, "correct horse")
    assert not await passwords.verify(None, "nobody has this password")
    assert not await passwords.verify("damaged", "correct horse")
    assert await passwords.hash("correct horse") != hash


async def test_a_hash_of_other_parameters_is_outdated() -> None:
    passwords = Passwords()
    assert not passwords.outdated(await passwords.hash("correct horse"))
    assert passwords.outdated(PasswordHasher(1, 8, 1).hash("correct horse"))


@pytest.mark.parametrize("length", [0, MIN_LENGTH - 1, MAX_LENGTH + 1])
def test_length_is_bounded(length: int) -> None:
    with pytest.raises(UsageError, match="characters"):
        check_password("x" * length)
    check_password("x" * MIN_LENGTH)
    check_password("x" * MAX_LENGTH)
