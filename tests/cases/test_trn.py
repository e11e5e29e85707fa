"""Training cases of CASES.md."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import nn

from polysemy.core.errors import Diverged, InputError
from polysemy.core.run import Run
from polysemy.data.batch import Batch
from polysemy.data.loader import SentenceLoader
from polysemy.data.shards import build_shards
from polysemy.objectives.bidirectional import Bidirectional
from polysemy.objectives.loss import Loss
from polysemy.systems.elmo import SIZES, ELMo
from polysemy.text.tokenizer import train_tokenizer
from polysemy.text.words import Segmenter
from polysemy.train.checkpoint import all_finite, latest_checkpoint
from polysemy.train.loop import GradientUpdate, TrainSettings, train
from polysemy.train.schedule import factor


class Given:
    """Loss ``w * x`` a token: ``target_ids`` holds x, -1 where no token is."""

    def corrupt(self, batch, generator):
        return batch

    def loss(self, model, batch):
        real = batch.target_ids >= 0
        return Loss((model.weight * batch.target_ids)[real].sum(), int(real.sum()))


class Weight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))


def test_trn_01_accumulated_loss_is_the_mean_over_all_tokens():
    batch = Batch(size=2, target_ids=torch.tensor([[4, -1, -1], [1, 1, 1]]))
    gradients = []
    for parts in (1, 2):
        model = Weight()
        update = GradientUpdate(model, Given(), TrainSettings(1, accumulate=parts, clip=0.0, precision="fp32"))
        update.optimizer.step = lambda factor, model=model: gradients.append(float(model.weight.grad))
        loss = update.step(batch, 0)
        assert float(loss.total) / loss.count == 1.75
    assert gradients == [pytest.approx(1.75, abs=1e-6)] * 2


class Items:
    """Ten items, one a batch, in a new order each epoch."""

    steps_per_epoch, fills_batch = 10, True

    def __init__(self, stop_at=None):
        self.stop_at, self.seen = stop_at, []

    def batch(self, step):
        if step == self.stop_at:
            raise KeyboardInterrupt
        generator = torch.Generator().manual_seed(step // 10)
        item = int(torch.randperm(10, generator=generator)[step % 10])
        self.seen.append(item)
        return Batch(size=1, target_ids=torch.tensor([[item]]))

    def words(self, step):
        return 1


def test_trn_02_resuming_inside_an_epoch_goes_on_in_the_same_order(tmp_path):
    settings = TrainSettings(20, lr=0.1, precision="fp32", checkpoint_seconds=0.0, prefetch=False, log_every=1)
    losses = {}
    seen = {}
    for name, stops in (("whole", [None]), ("cut", [13, None])):
        for stop in stops:
            model, items = Weight(), Items(stop)
            update = GradientUpdate(model, Given(), settings)
            kept = losses.setdefault(name, {})
            step = update.step

            def noting(batch, number, step=step, kept=kept):
                loss = step(batch, number)
                kept[number] = float(loss.total)
                return loss

            update.step = noting
            with Run.open(tmp_path / name, {}) as run:
                if stop is None:
                    train(update, items, settings, run)
                else:
                    with pytest.raises(KeyboardInterrupt):
                        train(update, items, settings, run)
            seen[name] = seen.get(name, []) + items.seen
    assert seen["whole"] == seen["cut"]
    assert sorted(seen["cut"][10:]) == list(range(10))
    assert losses["whole"] == losses["cut"]
    assert len(losses["cut"]) == 20


def test_trn_04_the_schedule_covers_every_step_and_is_never_zero():
    items, batch, epochs = 10, 4, 2
    total = math.ceil(items / batch) * epochs
    assert total == 6
    assert [factor("linear", step, total, 2) for step in range(total)] == [0.5, 1, 1, 0.75, 0.5, 0.25]
    assert TrainSettings(6, warmup=1 / 3).warmup_steps == 2


def test_trn_05_the_schedule_advances_once_an_update(tmp_path):
    settings = TrainSettings(2, lr=1.0, warmup=1.0, accumulate=4, precision="fp32", log_every=1)

    class Fours(Items):
        def batch(self, step):
            return Batch(size=4, target_ids=torch.tensor([[1], [2], [3], [4]]))

    model, micro = Weight(), []

    class Counting(Given):
        def loss(self, model, batch):
            micro.append(batch.size)
            return super().loss(model, batch)

    update = GradientUpdate(model, Counting(), settings)
    with Run.open(tmp_path, {}) as run:
        result = train(update, Fours(), settings, run)
    assert micro == [1] * 8
    assert result.steps == 2
    assert update.figures["lr"] == 1.0
    assert float(update.optimizer.tensors()["weight.step"]) == 2


def test_trn_07_divergence_is_a_catchable_error_with_step_rate_and_last_finite_state(tmp_path):
    class Exploding(Given):
        def loss(self, model, batch):
            total = torch.exp(model.weight * 10).sum()  # overflows once the rate of 50 has moved the weight upwards
            return Loss(-total, 1)

    settings = TrainSettings(20, lr=50.0, warmup=0.0, precision="fp32")
    with Run.open(tmp_path / "run", {}) as run, pytest.raises(Diverged) as caught:
        train(GradientUpdate(Weight(), Exploding(), settings), Items(), settings, run)
    assert isinstance(caught.value, InputError)  # exit code 2
    assert 1 < caught.value.step <= 20
    assert 0 < caught.value.lr <= 50
    assert f"step {caught.value.step}" in str(caught.value)
    assert "learning rate" in str(caught.value)
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert str(kept.path) in str(caught.value)
    assert kept.step == caught.value.step - 1
    assert all_finite(kept.tensors)


def test_trn_08_perplexity_does_not_depend_on_batch_size(tmp_path):
    """Counted are the words and the sentence end (forward) or begin (backward): 5 and 2 predictions each way."""
    texts = ["a b c d", "a"]
    tokenizer = train_tokenizer("characters", Counter("aabcd"), segmenter=Segmenter(), vocab_size=20)
    items = list(enumerate(map(tokenizer.encode, texts)))
    torch.manual_seed(0)
    config = ELMo.Config(vocab_size=tokenizer.vocab_size, **SIZES["tiny"])
    model, objective = ELMo(config).eval(), Bidirectional(tokenizer.vocab_size, samples=0)

    def measure(name, documents):
        shards = build_shards(tmp_path / name, documents, lexicon=True)
        batch = SentenceLoader(shards, tokenizer, batch_words=100).batch(0)
        with torch.no_grad():
            loss = objective.loss(model, batch)
        return float(loss.total), loss.count, loss.parts

    together, alone = measure("both", items), [measure(str(i), [item]) for i, item in enumerate(items)]
    assert [count for _, count, _ in alone] == [10, 4]
    assert together[1] == 14
    assert together[0] == pytest.approx(sum(total for total, _, _ in alone), rel=1e-6)
    for direction in ("forward", "backward"):
        assert [parts[direction][1] for _, _, parts in alone] == [5, 2]
        assert together[2][direction][0] == pytest.approx(sum(p[direction][0] for _, _, p in alone), rel=1e-6)
