"""What runs on a source: Python 3.9, the standard library, and the contract."""

import socket

from labconsole.agent.sending.contract import StreamJob

VERSION = "1"


def prepare(job: StreamJob) -> socket.socket:
    """A socket on the stream's interface, which receives nothing."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.bind((job.interface, 0))
    return opened


def send(job: StreamJob, opened: socket.socket) -> None:
    """Whatever is due, frame by frame, once a burst of it is; then sleep."""
    burst = job.options["burst"]
    while job.more():
        if job.due() < min(burst, job.total - job.sent_packets):
            job.sleep()
            continue
        try:
            opened.send(job.frame())
        except BlockingIOError:
            job.refused()
            continue
        job.sent(1)
