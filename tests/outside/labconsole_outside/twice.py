"""A kind of experiment: the plan's first point, several times in a row."""

from functools import partial

from labconsole.contracts.picture import StepPicture
from labconsole.measure.recompute.discrepancy import Discrepancy
from labconsole.model.record.run import PlanRef
from labconsole.model.record.summary import RunFilter
from pydantic import BaseModel, ConfigDict, Field

from labconsole_outside.twice_record import KIND, TwiceRecord


class TwiceFactors(BaseModel):
    """What a plan may say under ``experiments: {twice: …}``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    times: int = Field(default=2, ge=1, le=5)


class TwiceStep:
    """One step: all of its trials."""

    def __init__(self, plan, times, salt, store):
        self.plan, self.times, self._store = plan, times, store
        self.request = plan.points[0].request
        self.hash = f"twice-{plan.hash()}-{times}{salt and '-' + salt}"

    def describe(self):
        """For people."""
        return f"the first point, {self.times} times"

    def durations_s(self, inventory):
        """Of its trials."""
        return [self.request.duration_s] * self.times

    def picture(self, record):
        """What it found."""
        return StepPicture(found=(f"{len(record.runs)} runs",))

    def _place(self, number, **attempts):
        return PlanRef(name=self.plan.name, hash=self.hash, point=0, repetition=number, seed=self.plan.seed, **attempts)

    async def take(self, bench):
        """Trial after trial, then the record."""
        runs = []
        for number in range(1, self.times + 1):
            bench.show(StepPicture(found=(f"{number} of {self.times}",)))
            runs.append(await bench.trial(self.request, partial(self._place, number)))
        record = TwiceRecord(
            id=runs[0].run_id, started_at=runs[0].started_at, testbed=bench.inventory.testbed,
            testbed_fingerprint=bench.inventory.fingerprint(), plan_name=self.plan.name, plan_hash=self.hash,
            platform=self.request.platform, times=self.times, runs=[run.run_id for run in runs],
        )
        self._store.save_experiment(KIND, record)
        return record


class Twice:
    """The kind."""

    def __init__(self, store):
        self._store = store

    def steps(self, plan, only=None, salt=""):
        """One, of a plan that asks for it."""
        asked = dict(plan.experiments).get("twice")
        if asked is None or (only is not None and 0 not in only):
            return []
        return [TwiceStep(plan, asked.times, salt, self._store)]

    def stored(self, steps, testbed_fingerprint):
        """By their hashes."""
        where = RunFilter(plan_hash=[step.hash for step in steps], testbed_fingerprint=testbed_fingerprint)
        return {each.plan_hash: each for each in self._store.experiments(KIND, where, status="done")}

    def earlier(self, testbed_fingerprint):
        """Records do not say what their plan was."""
        return []

    def refuse(self, steps, plan, inventory, stage):
        """Every testbed can be asked it."""
        return {}


def recompute(record):
    """What a record says beside what it holds."""
    if len(record.runs) != record.times:
        yield Discrepancy(where="times", stored=str(record.times), says=f"it has {len(record.runs)} runs")


EXPERIMENT, FACTORS, RECOMPUTE = Twice, TwiceFactors, recompute
