"""Addresses to listen on, as text."""

import pytest

from zoneward.daemon.listen_address import ListenAddress, parse_listen_address

ADDRESSES = {
    ":10271": ListenAddress(None, 10271),
    "127.0.0.1:0": ListenAddress("127.0.0.1", 0),
    "localhost:80": ListenAddress("localhost", 80),
    "[::1]:80": ListenAddress("::1", 80),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_a_host_and_a_port_are_read_and_written(text: str) -> None:
    assert parse_listen_address(text) == ADDRESSES[text]
    assert str(ADDRESSES[text]) == text


@pytest.mark.parametrize("text", ["", "80", "localhost", "localhost:", "::1:80", "a:65536", "a:-1", "a:٣", "a:b"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected \[HOST\]:PORT"):
        parse_listen_address(text)
