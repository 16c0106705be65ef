"""Single torch operations and what an H200 with torch 2.11 says of each under capture; the lint has to say the same.

Arguments are x (64 numbers), k (their indices), m (a mask), a (an invertible matrix).
"""

import copy
import itertools

import torch
import torch.nn.functional as functional

_SEEDS = itertools.count(1)
_GENERATORS = {}
_PINNED = {}


def own_generator(x):
    """A generator that the first call made."""
    if x.device not in _GENERATORS:
        _GENERATORS[x.device] = torch.Generator(device=x.device)
    return _GENERATORS[x.device]


def pinned(x):
    """Pinned memory that the first call made."""
    if x.device not in _PINNED:
        with torch.inference_mode(False):
            _PINNED[x.device] = torch.zeros(64).pin_memory()
    return _PINNED[x.device]


#: What ends a capture.
BREAKS = {
    "allclose": lambda x, k, m, a: torch.allclose(x, x),
    "equal": lambda x, k, m, a: torch.equal(x, x + 1),
    "item": lambda x, k, m, a: x[0].item(),
    "is_nonzero": lambda x, k, m, a: torch.is_nonzero(x[0]),
    "tolist": lambda x, k, m, a: x.tolist(),
    "cpu": lambda x, k, m, a: x.cpu(),
    "a number of the device as a size": lambda x, k, m, a: x[: k[0]],
    "arange to a number of the device": lambda x, k, m, a: torch.arange(x[0], device=x.device),
    "full of a number of the device": lambda x, k, m, a: torch.full((2,), x[0], device=x.device),
    "linspace between numbers of the device": lambda x, k, m, a: torch.linspace(x[0], x[1], 5, device=x.device),
    "logspace between numbers of the device": lambda x, k, m, a: torch.logspace(x[0], x[1], 5, device=x.device),
    "masked_fill with a number of the device": lambda x, k, m, a: x.masked_fill(m, x[0]),
    "index_fill with a number of the device": lambda x, k, m, a: x.clone().index_fill_(0, k, x[0]),
    "unique": lambda x, k, m, a: torch.unique(x),
    "nonzero": lambda x, k, m, a: x.nonzero(),
    "where without values": lambda x, k, m, a: torch.where(m),
    "masked_select": lambda x, k, m, a: torch.masked_select(x, m),
    "a mask as an index": lambda x, k, m, a: x[m],
    "a tensor assigned by a mask": lambda x, k, m, a: x.clone().__setitem__(m, x[0]),
    "index_put_ with a mask": lambda x, k, m, a: x.clone().index_put_((m,), x[:1]),
    "a list as an index": lambda x, k, m, a: x[[0, 1]],
    "repeat_interleave": lambda x, k, m, a: torch.repeat_interleave(x, k),
    "one_hot": lambda x, k, m, a: functional.one_hot(k),
    "bincount": lambda x, k, m, a: torch.bincount(k, minlength=64),
    "histc": lambda x, k, m, a: torch.histc(x, 4),
    "isin of many": lambda x, k, m, a: torch.isin(k, torch.arange(5000, device=x.device)),
    "searchsorted with a sorter": lambda x, k, m, a: torch.searchsorted(x, x, sorter=k),
    "segment_reduce": lambda x, k, m, a: torch.segment_reduce(x, "sum", lengths=k.new_full((2,), 32)),
    "cov": lambda x, k, m, a: torch.cov(a),
    "corrcoef": lambda x, k, m, a: torch.corrcoef(a),
    "inv": lambda x, k, m, a: torch.linalg.inv(a),
    "svd": lambda x, k, m, a: torch.linalg.svd(a),
    "pinv": lambda x, k, m, a: torch.linalg.pinv(a),
    "a norm by singular values": lambda x, k, m, a: torch.linalg.norm(a, 2),
    "matrix_exp": lambda x, k, m, a: torch.linalg.matrix_exp(a),
    "a tensor of the host's numbers": lambda x, k, m, a: torch.tensor([1.0, 2.0], device=x.device),
    "new_tensor": lambda x, k, m, a: x.new_tensor(2.0),
    "pageable memory copied": lambda x, k, m, a: torch.zeros(4).to(x.device, non_blocking=True),
    "pinned memory waited for": lambda x, k, m, a: torch.empty_like(x).copy_(pinned(x)),
    "normal of deviations": lambda x, k, m, a: torch.normal(x, x.abs()),
    "a generator of its own": lambda x, k, m, a: torch.rand(4, device=x.device, generator=own_generator(x)),
    "a new generator": lambda x, k, m, a: torch.Generator(device=x.device),
    "another seed": lambda x, k, m, a: torch.manual_seed(next(_SEEDS)),
    "a random seed": lambda x, k, m, a: torch.cuda.seed(),
    "a query of the stream": lambda x, k, m, a: torch.cuda.current_stream().query(),
    # last: what it leaves behind in the solver's handle makes the next call of the solver fail outside of a capture too
    "eigh": lambda x, k, m, a: torch.linalg.eigh(a),
}
#: What ends a capture, and is tried by hand only: after it no call of the solver in this process is right.
SPOILS = {"eigvals": lambda x, k, m, a: torch.linalg.eigvals(a)}
#: What a capture takes.
SOUND = {
    "equal shapes only": lambda x, k, m, a: torch.equal(x, x[:3]),
    "equal to itself": lambda x, k, m, a: torch.equal(x, x),
    "isclose": lambda x, k, m, a: torch.isclose(x, x),
    "multinomial": lambda x, k, m, a: torch.multinomial(x, 2),
    "multinomial with replacement": lambda x, k, m, a: torch.multinomial(x, 2, replacement=True),
    "randn": lambda x, k, m, a: torch.randn(4, device=x.device),
    "the seed that it has": lambda x, k, m, a: torch.cuda.manual_seed(0),
    "a generator of the host": lambda x, k, m, a: torch.Generator().manual_seed(3),
    "a seed that is read": lambda x, k, m, a: torch.cuda.initial_seed(),
    "a number assigned by a mask": lambda x, k, m, a: x.clone().__setitem__(m, 0.0),
    "masked_fill with the host's number": lambda x, k, m, a: x.masked_fill(m, torch.tensor(1.0)),
    "masked_scatter": lambda x, k, m, a: x.masked_scatter(m, x),
    "index_put_ with indices": lambda x, k, m, a: x.clone().index_put_((k,), x, accumulate=True),
    "repeat_interleave of a known size": lambda x, k, m, a: torch.repeat_interleave(x, m * 0 + 1, output_size=64),
    "one_hot of a known width": lambda x, k, m, a: functional.one_hot(k, 64),
    "histc of a range": lambda x, k, m, a: torch.histc(x, 4, min=0, max=10),
    "isin of few": lambda x, k, m, a: torch.isin(k, k[:3]),
    "searchsorted": lambda x, k, m, a: torch.searchsorted(x, x),
    "segment_reduce unchecked": lambda x, k, m, a: torch.segment_reduce(
        x, "sum", lengths=k.new_full((2,), 32), unsafe=True
    ),
    "linspace": lambda x, k, m, a: torch.linspace(0, 1, 5, device=x.device),
    "arange": lambda x, k, m, a: torch.arange(5, device=x.device),
    "cumsum": lambda x, k, m, a: x.cumsum(0),
    "sort": lambda x, k, m, a: x.sort(),
    "topk": lambda x, k, m, a: x.topk(3),
    "cholesky_ex": lambda x, k, m, a: torch.linalg.cholesky_ex(a),
    "qr": lambda x, k, m, a: torch.linalg.qr(a),
    "memory pinned": lambda x, k, m, a: torch.zeros(4).pin_memory(),
    "pad_sequence": lambda x, k, m, a: torch.nn.utils.rnn.pad_sequence([x, x[:3]]),
    "vander": lambda x, k, m, a: torch.vander(x[:4]),
    "tensor_split": lambda x, k, m, a: torch.tensor_split(x, torch.tensor([1, 2])),
    "deepcopy": lambda x, k, m, a: copy.deepcopy(x),
}
#: What a capture takes and the lint does not: a replay uses memory of the host that may be another's by then.
LATER = {
    "pinned memory read": lambda x, k, m, a: torch.empty_like(x).copy_(pinned(x), non_blocking=True),
    "pinned memory written": lambda x, k, m, a: pinned(x).copy_(x, non_blocking=True),
    "a copy to the host not waited for": lambda x, k, m, a: x.to("cpu", non_blocking=True),
}


def inputs(device):
    """The arguments of a probe, on ``device``."""
    x = torch.arange(64, dtype=torch.float32) + 1
    given = {"x": x, "k": torch.arange(64), "m": x > 3, "a": torch.eye(4) * 3 + 0.1}
    return {name: tensor.to(device) for name, tensor in given.items()}


def launch_of(probe):
    """A launch that does what ``probe`` does, and returns a tensor or nothing; it reads all of its arguments."""

    def launch(x, k, m, a):
        for given in (x, k, m, a):
            given.clone()
        made = probe(x, k, m, a)
        return made if isinstance(made, torch.Tensor) and made.device == x.device else None

    return launch
