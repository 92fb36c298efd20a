"""Sends what it should, and then counts more than there was to send."""

import socket


def prepare(job):
    """A socket on the stream's interface."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.bind((job.interface, 0))
    return opened


def send(job, opened):
    """Honest with a few frames, such as those that show whether the unit under test forwards."""
    while job.more():
        if not job.due():
            job.sleep()
            continue
        opened.send(job.frame())
        job.sent(1)
    if job.total > 1000:
        job.sent(7)
