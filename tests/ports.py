"""Ports of this machine for servers that take them later, or again after a kill."""

import socket

reserved = []  # bound for as long as this process lives


def reserved_port():
    """One that the system gives to nobody else meanwhile: it is bound here and nobody listens, which keeps no server
    from it that sets SO_REUSEADDR, as ours and torch's do. Who connects before that is refused, as at any other."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    reserved.append(holder)
    return holder.getsockname()[1]
