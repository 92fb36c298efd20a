"""A plan's execution: pause, resume, abort, and what is told of every trial, on a testbed that is a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tui_fake import make_inventory, make_record

from labconsole.engine.campaign import Campaign, CampaignStatus, Progress
from labconsole.engine.grid import TrialState
from labconsole.engine.ports import StoredTrial
from labconsole.errors import ConfigError, NodeLost
from labconsole.model.plan import Plan
from labconsole.model.plan_load import check_plan, load_plan

PLAN = """\
plan: small
platforms: [raw, container]
frame_sizes: [64]
targets: [10Mbit]
duration_s: 1
repetitions: 3
order: as-listed
settle_s: 0
max_redo: 1
"""
EVERY = [(point, repetition) for point in (0, 1) for repetition in (1, 2, 3)]


class Script:
    """A testbed on which a trial waits until the test lets it end: ``ends`` says how (a verdict or an error)."""

    def __init__(self) -> None:
        self.inventory = make_inventory()
        self.store = self
        self.held: list[StoredTrial] = []
        self.asked: list[tuple[int, int]] = []
        self.ends: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.begun: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.batches = 0
        self.leased = False
        self._stop = asyncio.Event()

    def plan_runs(self, plan_hash: str, testbed_fingerprint: str) -> list[StoredTrial]:
        return self.held

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def settings(self, *, drain_s=None):
        return None

    def nodes_of(self, request):
        return ["uut"]

    @asynccontextmanager
    async def batch(self, request, *, purpose, take_over, left_s, nodes) -> AsyncIterator[Callable]:
        self._stop.clear()
        self.batches += 1
        self.leased = True
        try:
            yield self._take
        finally:
            self.leased = False

    async def _take(self, request, ref, repetition, repetitions, settings, tolerances, keep=True):
        trial = (ref.point, ref.repetition)
        self.asked.append(trial)
        await self.begun.put(trial)
        end = await self.ends.get()
        if isinstance(end, Exception):
            raise end
        return make_record(request, f"run{len(self.asked)}", status=end)

    async def settle(self, seconds):
        pass

    async def wait_connected(self, nodes, *, within_s):
        pass

    async def renew_lease(self, left_s):
        pass

    async def wait_stopping(self):
        await self._stop.wait()

    async def abort(self):
        self._stop.set()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "p.yaml"
    path.write_text(PLAN)
    return check_plan(load_plan(path), make_inventory())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


def states(campaign: Campaign) -> list[TrialState]:
    return [campaign.grid[trial].state for trial in EVERY]


def run(body) -> None:
    asyncio.run(asyncio.wait_for(body(), 10))


def test_every_trial_is_pending_then_running_then_as_it_came_out(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        assert states(campaign) == [TrialState.PENDING] * 6
        task = asyncio.create_task(campaign.run())
        assert await script.begun.get() == (0, 1)
        assert campaign.grid[0, 1].state is TrialState.RUNNING
        assert campaign.left_s is not None
        for end in ("valid", "suspect", "valid", "valid", "valid", "valid"):
            script.ends.put_nowait(end)
        outcome = await task
        assert states(campaign) == [TrialState.VALID, TrialState.SUSPECT] + [TrialState.VALID] * 4
        assert (campaign.status, outcome.taken, campaign.left_s) == (CampaignStatus.DONE, 6, None)
        assert campaign.grid.failing()[0][1].why[0].startswith("below_target: ")
        assert campaign.grid[0, 2].run_id == "run2"

    run(body)


def test_a_pause_lets_the_trial_end_and_keeps_the_testbed_until_resumed(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        task = asyncio.create_task(campaign.run())
        await script.begun.get()
        campaign.pause()
        assert campaign.status is CampaignStatus.PAUSING
        script.ends.put_nowait("valid")
        await until(lambda: campaign.status is CampaignStatus.PAUSED)
        assert (script.asked, script.leased) == ([(0, 1)], True)
        assert campaign.grid[0, 1].state is TrialState.VALID
        spent_s = campaign.spent_s
        assert campaign.spent_s == pytest.approx(spent_s, abs=1e-3)
        campaign.resume()
        for _ in range(5):
            script.ends.put_nowait("valid")
        await task
        assert (script.batches, script.asked) == (1, EVERY)

    run(body)


def test_a_pause_taken_back_in_time_holds_nothing_up(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        task = asyncio.create_task(campaign.run())
        await script.begun.get()
        campaign.pause()
        campaign.resume()
        assert campaign.status is CampaignStatus.RUNNING
        for _ in range(6):
            script.ends.put_nowait("valid")
        assert (await task).taken == 6

    run(body)


@pytest.mark.parametrize("by_session", [False, True])
def test_an_abort_ends_a_pause_and_lets_the_testbed_go(plan, by_session):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        task = asyncio.create_task(campaign.run())
        await script.begun.get()
        campaign.pause()
        script.ends.put_nowait("valid")
        await until(lambda: campaign.status is CampaignStatus.PAUSED)
        await (script.abort() if by_session else campaign.abort())
        outcome = await task
        assert (outcome.stopped, outcome.taken, script.leased) == (True, 1, False)
        assert campaign.status is CampaignStatus.STOPPED
        assert states(campaign)[1:] == [TrialState.PENDING] * 5

    run(body)


def test_an_abort_in_a_trial_leaves_it_to_be_taken_again(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        task = asyncio.create_task(campaign.run())
        await script.begun.get()
        await campaign.abort()
        assert campaign.status is CampaignStatus.STOPPING
        script.ends.put_nowait("invalid")
        assert (await task).stopped
        assert campaign.grid[0, 1].state is TrialState.INVALID
        assert campaign.grid[0, 1].run_id == "run1"

    run(body)


def test_an_abort_before_the_first_trial_begins_none(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        task = asyncio.create_task(campaign.run())
        await asyncio.sleep(0)
        await campaign.abort()
        assert (await task).stopped
        assert script.asked == []

    run(body)


def test_what_is_stored_is_shown_with_its_run_and_not_taken(plan):
    async def body():
        script = Script()
        script.held = [StoredTrial(0, 1, "old", "suspect"), StoredTrial(0, 9, "more", "valid")]
        campaign = Campaign(plan, script)
        for _ in range(5):
            script.ends.put_nowait("valid")
        outcome = await campaign.run()
        assert (outcome.skipped, outcome.taken) == (1, 5)
        cell = campaign.grid[0, 1]
        assert (cell.state, cell.run_id, cell.verdict) == (TrialState.STORED, "old", "suspect")
        assert campaign.grid.count(TrialState.STORED, TrialState.VALID) == 6

    run(body)


def test_redos_are_counted_and_say_why(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        for end in ("invalid", "valid", "invalid", "invalid", *["valid"] * 4):
            script.ends.put_nowait(end)
        outcome = await campaign.run()
        assert (outcome.redone, len(outcome.invalid)) == (2, 1)
        first, second = campaign.grid[0, 1], campaign.grid[0, 2]
        assert (first.state, first.redone, first.why) == (TrialState.VALID, 1, ())
        assert (second.state, second.redone) == (TrialState.INVALID, 1)
        assert [trial for trial, _ in campaign.grid.failing()] == [(0, 1), (0, 2)]

    run(body)


def test_a_lost_node_is_waited_for_and_the_trial_says_so(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        script.ends.put_nowait(NodeLost("snk1", "the cable", operation="x"))
        for _ in range(6):
            script.ends.put_nowait("valid")
        outcome = await campaign.run()
        assert (outcome.redone, outcome.taken, script.batches) == (1, 6, 2)
        assert campaign.grid[0, 1].redone == 1

    run(body)


def test_what_keeps_a_trial_from_beginning_ends_the_campaign_with_the_reason(plan):
    async def body():
        script = Script()
        campaign = Campaign(plan, script)
        for _ in "ab":
            script.ends.put_nowait(ConfigError("is above what uut/eth1 carries"))
        with pytest.raises(ConfigError):
            await campaign.run()
        assert campaign.status is CampaignStatus.FAILED
        assert "above what uut/eth1 carries" in campaign.detail
        assert campaign.grid[0, 1].state is TrialState.PENDING

    run(body)


def test_headless_progress_is_told_at_both_ends_of_every_trial(plan):
    async def body():
        script = Script()
        told: list[Progress] = []
        for _ in range(6):
            script.ends.put_nowait("valid")
        await Campaign(plan, script, told.append).run()
        assert [(p.point.index, p.repetition) for p in told[::2]] == EVERY
        assert [p.done for p in told if p.last is not None] == [1, 2, 3, 4, 5, 6]
        assert told[0].left_s is None
        assert told[-1].left_s == 0

    run(body)
