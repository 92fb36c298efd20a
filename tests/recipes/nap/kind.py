"""Guests that sleep for some time."""

from __future__ import annotations

from labconsole.model.plan.guest_kind import FactorOption, GuestCommand, GuestKind

KIND = GuestKind(
    name="nap",
    plural="naps",
    place=90,
    instead="guests that sleep",
    purpose="naps of guests",
    assumed="for the requested time asleep",
    title="Naps of guests",
    result_title="slept",
    command=GuestCommand(
        help="guests that sleep",
        description="Have guests sleep side by side.",
        platforms="platforms of hosts.yaml",
        options=(
            FactorOption("--guests", "guests", "counts", "N,M", "how many guests sleep at once (default: 1)"),
            FactorOption("--bed", "bed", "names", "A,B", "soft, hard (default: soft)"),
            FactorOption("--for", "for_s", "number", "S", "how long (default: 1)"),
        ),
        set_ups="how often the guests are set up",
        repetitions="naps in each set-up",
        summary="how long guests slept",
    ),
)
