"""What sophiah and splus need of the loop: differentiable steps, and two sets of weights."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import BertForMaskedLM

from tests.optim.tiny import batch, make, tiny_bert, train
from tiryns.runner.optim import get_optimizer, loop_needs
from tiryns.runner.optim.algorithms.sophia import LoopSophiaH
from tiryns.runner.optim.groups import parameters_of


def sophia(model: nn.Module, **settings: Any) -> LoopSophiaH:
    optimizer = make("sophiah", False, model, **settings)
    assert isinstance(optimizer, LoopSophiaH)
    return optimizer


def hessian_of_a_step(
    model: nn.Module, forward: nn.Module, rows: slice, micro_batches: int, **settings: Any
) -> torch.Tensor:
    """The estimate of the first step's Hessian diagonal, all parameters in one vector."""
    optimizer = sophia(model, **settings)
    needs = loop_needs(optimizer)
    ids, targets = (tensor[rows] for tensor in batch(0))
    with needs.step(0):
        assert needs.create_graph
        for part, target in zip(ids.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
            (forward(part, labels=target).loss / micro_batches).backward(create_graph=needs.create_graph)
            needs.after_backward()
        optimizer.step()
    moment = [optimizer.state[p]["hessian_moment"].flatten() for p in parameters_of(optimizer)]
    return torch.cat(moment) / (1 - optimizer.param_groups[0]["betas"][1])


def test_needs_are_seen_through_a_wrapper() -> None:
    optimizer = sophia(tiny_bert())
    assert loop_needs(LightningOptimizer(optimizer)) is loop_needs(optimizer)  # type: ignore[arg-type]


def test_the_estimate_is_the_diagonal_of_the_hessian() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(6, dtype=torch.float64))
    half = torch.randn(6, 6, dtype=torch.float64)
    matrix = half @ half.T
    settings = {"num_samples": 2000, "hessian_distribution": "rademacher", "lr": 1e-3}
    optimizer = get_optimizer("sophiah", [("w", weight)], settings)
    with (needs := loop_needs(optimizer)).step(0):
        (0.5 * weight @ matrix @ weight).backward(create_graph=needs.create_graph)
        needs.after_backward()
        optimizer.step()
    found = optimizer.state[weight]["hessian_moment"] / (1 - 0.99)
    torch.testing.assert_close(found, matrix.diagonal(), rtol=0.15, atol=0.3)


def test_the_estimate_does_not_depend_on_the_micro_batches() -> None:
    model = tiny_bert()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    whole = hessian_of_a_step(model, model, slice(None), 1)
    model.load_state_dict(start)
    cut = hessian_of_a_step(model, model, slice(None), 4)
    assert whole.abs().sum() > 0
    torch.testing.assert_close(cut, whole, rtol=1e-3, atol=1e-6)


def test_only_hessian_steps_are_differentiated_twice_and_gradients_carry_no_graph() -> None:
    model = tiny_bert()
    optimizer = sophia(model, update_period=3)
    needs: Any = loop_needs(optimizer)
    seen, noises = [], []
    for step in range(7):
        with needs.step(step):
            seen.append(needs.create_graph)
            noises += [noise[0] for noise in needs.noise]
            ids, targets = batch(step)
            model(ids, labels=targets).loss.backward(create_graph=needs.create_graph)
            needs.after_backward()
            assert not any(p.grad.requires_grad for p in model.parameters() if p.grad is not None)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
        optimizer.zero_grad()
        assert not needs.create_graph
    assert seen == [True, False, False, True, False, False, True]
    assert not torch.equal(noises[0], noises[1])
    assert set(optimizer.state[next(model.parameters())]) == {"momentum", "hessian_moment"}


def test_a_hessian_step_outside_of_the_hook_is_an_error() -> None:
    model = tiny_bert()
    optimizer = sophia(model)
    ids, targets = batch(0)
    model(ids, labels=targets).loss.backward()
    with pytest.raises(RuntimeError, match="sophiah needs a differentiable backward pass"):
        optimizer.step()


def test_fp16_is_refused_in_any_loop() -> None:
    model, scaler = tiny_bert(), torch.amp.GradScaler("cpu")
    optimizer = sophia(model)
    ids, targets = batch(0)
    with (needs := loop_needs(optimizer)).step(0):
        scaler.scale(model(ids, labels=targets).loss).backward(create_graph=needs.create_graph)
        needs.after_backward()
        with pytest.raises(ValueError, match="too large for fp16"):
            scaler.step(optimizer)


def test_a_step_that_fails_leaves_no_hooks() -> None:
    model = tiny_bert()
    optimizer = sophia(model)
    with pytest.raises(KeyError), loop_needs(optimizer).step(0):
        raise KeyError
    assert not any(p._backward_hooks for p in model.parameters())
    assert optimizer.hessian is None


def test_sophiah_resumes_between_two_estimates_whatever_the_global_generator_does() -> None:
    def run(noise: int) -> BertForMaskedLM:
        model = tiny_bert()
        torch.manual_seed(noise)
        train(model, sophia(model, update_period=3), range(5))
        return model

    for a, b in zip(run(1).parameters(), run(2).parameters(), strict=True):
        assert torch.equal(a, b)


def rank_of_two(rank: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/join", rank=rank, world_size=2)
    model = tiny_bert()
    parallel = DistributedDataParallel(model)
    estimate = hessian_of_a_step(model, parallel, slice(2 * rank, 2 * rank + 2), 1)
    torch.save([estimate, model.state_dict()], f"{folder}/{rank}.pt")
    torch.distributed.barrier()  # gloo may wait for ever for a rank that has left before
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_estimate_what_one_process_does(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(rank_of_two, (str(tmp_path),), nprocs=2)
    model = tiny_bert()
    alone = hessian_of_a_step(model, model, slice(None), 1)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    assert torch.equal(ranks[0][0], ranks[1][0])
    torch.testing.assert_close(ranks[0][0], alone, rtol=1e-3, atol=1e-6)
    for name, tensor in model.state_dict().items():
        assert torch.equal(ranks[0][1][name], ranks[1][1][name])
        torch.testing.assert_close(ranks[0][1][name], tensor, rtol=1e-3, atol=1e-5)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


@pytest.mark.slow
def test_splus_evaluates_the_average_and_trains_on_exactly() -> None:
    model, other = tiny_bert(), tiny_bert()
    optimizer, undisturbed = (make("splus", False, m, weight_decay=0.0) for m in (model, other))
    trained: list[torch.Tensor] = []
    train(model, optimizer, range(4), after_step=lambda step: trained.append(weights(model)))
    needs = loop_needs(optimizer)
    share = [0.1 * 0.9 ** (3 - i) / (1 - 0.9**4) for i in range(4)]
    average = torch.stack([s * w for s, w in zip(share, trained, strict=True)]).sum(0)
    with needs.evaluation():
        needs.eval_mode()
        torch.testing.assert_close(weights(model), average, rtol=1e-5, atol=1e-6)
        assert not torch.equal(weights(model), trained[-1])
    assert torch.equal(weights(model), trained[-1])
    train(model, optimizer, range(4, 8))
    train(other, undisturbed, range(8))
    assert torch.equal(weights(model), weights(other))


def test_splus_averages_the_updates_of_each_parameter_whatever_the_rate_was() -> None:
    both = nn.ParameterList([torch.ones(2), torch.ones(2)])
    saved: dict[str, Any] = {}
    for ema_rate in (0.9, 0.99):
        optimizer = get_optimizer("splus", both, {"lr": 1e-6, "ema_rate": ema_rate})
        if saved:
            optimizer.load_state_dict(saved)
        for step in range(5):  # the first evaluation is before the first step
            with loop_needs(optimizer).evaluation():
                torch.testing.assert_close(weights(both), torch.ones(4))
            both[0].grad, both[1].grad = torch.ones(2), torch.ones(2) if step % 2 else None
            optimizer.step()
        saved = optimizer.state_dict()


def test_splus_resumes_from_a_checkpoint_written_while_it_evaluates(tmp_path: Path) -> None:
    model = tiny_bert()
    optimizer = make("splus", False, model)
    train(model, optimizer, range(3))
    with loop_needs(optimizer).evaluation():
        torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "saved.pt")
    train(model, optimizer, range(3, 6))
    resumed = tiny_bert(seed=1)
    second = make("splus", False, resumed)
    of_model, of_optimizer = torch.load(tmp_path / "saved.pt", weights_only=True)
    resumed.load_state_dict(of_model)
    second.load_state_dict(of_optimizer)
    train(resumed, second, range(3, 6))
    assert torch.equal(weights(model), weights(resumed))
