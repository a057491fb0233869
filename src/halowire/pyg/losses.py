"""Losses of the whole graph: torch's losses, with sums and divisors that run over the rows of all workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halowire.errors import InputError
from halowire.pyg.divisor import misleading_mean
from halowire.pyg.mixed_rows import refuse_mixed
from halowire.pyg.outside_norms import refuse_outside_norms
from halowire.pyg.own_rows import plain
from halowire.pyg.same_options import options_said, refuse_other_options
from halowire.pyg.whole_loss import WholeLoss, WholeMean
from halowire.wire import sent_over

if TYPE_CHECKING:
    from halowire.pyg.whole_loss import Reduction

WEIGHTED = (F.cross_entropy, F.nll_loss)
"""Losses whose mean torch divides by the weights of the labels that count, not by the number of values."""
TOLD = 4
"""Numbers that a worker tells the others of a term."""
Term = tuple[Tensor, Tensor]
"""Values whose mean is wanted, and the number that their sum is divided by."""


class Losses:
    """The losses of a part: each has torch's value and gradients on the whole graph, the same on every worker.

    ``mask`` picks the rows that count, as in ``out[mask]``: a mask of the part's rows or a translated index.
    ``penalty`` is a number that depends on weights alone, so that all workers have the same; it counts once.
    """

    reduction: Reduction

    def mean(self, values: Tensor, penalty: Tensor | float = 0.0, *, single: bool = False) -> Tensor:
        """The mean of all workers' ``values``, one or more for each of this worker's rows: the loss of the whole graph.

        The mean is the same on every worker, and after ``backward`` so are the weights' gradients. The mean may be
        scaled, and added to other such means; nothing else may be added to it.

        Args:
            values: the values of this worker's rows, in any shape; numbers and truth values are averaged as floats.
            penalty: a number that depends on weights alone, so that all workers have the same; it counts once.
            single: ``values`` is one number of this worker, and the mean of the workers' numbers is wanted.
        """
        _refuse_single(values, single)
        return self._whole([(values, _number_of(values))], penalty, single=single)[0]

    def means(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The `mean` of each of the ``values``, for all of which the workers exchange one message.

        On a GPU the host waits once, and not for every mean. All workers give equally many.

        Example:
            >>> found, missing = data.means([-torch.log(scores), -torch.log(1 - others)])
            >>> loss = found + missing
        """
        if not values:
            raise InputError("data.means got no values; give a list of tensors with one value or more for each row")
        for one in values:
            _refuse_single(one)
        return self._whole([(one, _number_of(one)) for one in values], 0.0)

    def ratio(self, values: Tensor, count: int) -> Tensor:
        """The sum of all workers' ``values`` divided by the sum of their ``count``, as a loss of the whole graph.

        For losses with more values than rows that count, such as a penalty on rows that is divided by the pairs.

        Example:
            >>> loss = data.ratio(torch.cat([values, 1e-4 * rows.square().sum(1)]), values.numel())
        """
        divisor = torch.full((), float(count), dtype=torch.float64, device=values.device)
        return self._whole([(values, divisor)], 0.0, single=True)[0]

    def loss(
        self, function: Callable[..., Tensor], out: Tensor, y: Tensor, mask: Any = None, *,
        penalty: Tensor | float = 0.0, **options: Any,
    ) -> Tensor:  # fmt: skip
        """``function(out, y, **options)`` of torch on the whole graph, averaged as torch averages it.

        Example:
            >>> loss = data.loss(F.poisson_nll_loss, out, data.y, data.train_mask, log_input=False)

        Args:
            function: a loss of ``torch.nn.functional`` that takes ``reduction="none"``.
            out: the rows of this worker, ``[n, ...]``.
            y: their labels.
            mask: the rows that count; all of them where it is None.
            penalty: a number that depends on weights alone.
            options: further arguments of ``function``.
        """
        if options.get("reduction") == "batchmean":
            name = getattr(function, "__name__", "kl_div")
            raise InputError(
                "the loss is given reduction='batchmean', the mean over rows of sums over their values; write "
                f"data.mean(F.{name}(out, y, reduction='none').sum(-1))"
            )
        if "reduction" in options:
            raise InputError(
                f"the loss is given reduction={options['reduction']!r}; halowire takes the mean over the rows of all "
                "workers itself: leave reduction out, or use data.mean for values of your own"
            )
        if mask is not None:
            out, y = out[mask], y[mask]
        values = function(out, y, reduction="none", **options)
        classes = function in WEIGHTED and not y.is_floating_point()
        count = _weight_of(*plain((y,)), **plain(options)) if classes else _number_of(values)
        return self._whole([(values, count)], penalty, options, by_class=classes)[0]

    def cross_entropy(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.cross_entropy`` of the whole graph, with its ``weight``, ``ignore_index`` and ``label_smoothing``."""
        return self.loss(F.cross_entropy, out, y, mask, **options)

    def nll_loss(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.nll_loss`` of the whole graph, with its ``weight`` and ``ignore_index``."""
        return self.loss(F.nll_loss, out, y, mask, **options)

    def binary_cross_entropy(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.binary_cross_entropy`` of the whole graph."""
        return self.loss(F.binary_cross_entropy, out, y, mask, **options)

    def binary_cross_entropy_with_logits(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.binary_cross_entropy_with_logits`` of the whole graph, with its ``pos_weight``."""
        return self.loss(F.binary_cross_entropy_with_logits, out, y, mask, **options)

    def mse_loss(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.mse_loss`` of the whole graph."""
        return self.loss(F.mse_loss, out, y, mask, **options)

    def l1_loss(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.l1_loss`` of the whole graph."""
        return self.loss(F.l1_loss, out, y, mask, **options)

    def smooth_l1_loss(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.smooth_l1_loss`` of the whole graph, with its ``beta``."""
        return self.loss(F.smooth_l1_loss, out, y, mask, **options)

    def huber_loss(self, out: Tensor, y: Tensor, mask: Any = None, **options: Any) -> Tensor:
        """``F.huber_loss`` of the whole graph, with its ``delta``."""
        return self.loss(F.huber_loss, out, y, mask, **options)

    def _whole(
        self, terms: Sequence[Term], penalty: Tensor | float, options: Mapping[str, Any] | None = None,
        *, by_class: bool = False, single: bool = False,
    ) -> list[Tensor]:  # fmt: skip
        """``sum of all workers' values / sum of all workers' counts`` of every term; the first one and the ``penalty``.

        With ``options``, torch's loss was told them; without, ``values`` are the script's, one of them if ``single``.
        """
        refuse_mixed([values for values, _ in terms], penalty)
        terms, penalty = plain((list(terms), penalty))
        if isinstance(penalty, Tensor) and penalty.dim():
            raise InputError(f"the penalty has shape {list(penalty.shape)}; give one number, such as its sum")
        terms = [(values if values.is_floating_point() else values.float(), count) for values, count in terms]
        learnt = [values for values, _ in terms] + ([penalty] if isinstance(penalty, Tensor) else [])
        if self.reduction.transport.size > 1:
            refuse_outside_norms(learnt)
        foreign, device = self.reduction.unknown_leaves(learnt), terms[0][0].device
        # The reason to refuse travels with the sums, so that all workers refuse, not only the one that sees it.
        told, reasons = zip(*(_told(*term, options is None, single) for term in terms), strict=True)
        said = [] if options is None else [options_said(options, terms[0][0].dim(), by_class, device)]
        strange = sent_over(torch.tensor([len(foreign)], dtype=torch.float64), device)
        sums = torch.cat([strange, *told, *said, self.reduction.weights_said(device)])
        sums = self.reduction.transport.all_reduce(sums, "reduction of the loss", account=None)
        found, *more = sums.tolist()  # on a device, the one wait of the host
        heard, more = more[: TOLD * len(terms)], more[TOLD * len(terms) :]
        size, length = self.reduction.transport.size, sum(len(piece) for piece in said)
        self.reduction.hear_weights(more[length:])
        refuse_other_options(size, more[:length], list(options or ()))
        each = [heard[at : at + TOLD] for at in range(0, len(heard), TOLD)]
        for (_, divisor, lonely, refused), reason in zip(each, reasons, strict=True):
            _refuse_mean(divisor, lonely == size > 1, bool(refused), reason)
        if found:
            self.reduction.adopt(foreign, int(found))
        means: list[Tensor] = [
            WholeMean.apply(values, self.reduction, total / divisor, divisor)  # type: ignore[no-untyped-call]
            for (values, _), (total, divisor, *_) in zip(terms, each, strict=True)
        ]
        if isinstance(penalty, Tensor) and penalty.requires_grad:
            penalty = self.reduction.once(penalty)
        means[0] = means[0] + penalty
        return [WholeLoss.of(mean, self.reduction) for mean in means]


def _told(values: Tensor, count: Tensor, judged: bool, single: bool) -> tuple[Tensor, str]:
    """What a worker tells of a term: sum, count, whether it is one number, whether torch would divide otherwise; why.

    ``judged``: the values are the script's.
    """
    reason, doubt = misleading_mean(values) if judged else ("", None)
    alone = judged and not single and values.numel() == 1
    flags = sent_over(torch.tensor([alone, bool(reason)], dtype=torch.float64), values.device)
    if doubt is not None:
        flags = flags * torch.stack([torch.ones_like(doubt), doubt])
    return torch.cat([torch.stack([values.detach().sum().double(), count.double()]), flags]), reason


def _refuse_single(values: Tensor, single: bool = False) -> None:
    if not values.dim() and not single:
        raise InputError(
            "data.mean got a single number, which looks like a mean already taken over this worker's rows; give "
            "one value per row (reduction='none'), use data.cross_entropy and its like, or say single=True"
        )


def _refuse_mean(divisor: float, lonely: bool, refused: bool, reason: str) -> None:
    """Refuse a mean that is none of the whole graph: by what all workers told of it."""
    if lonely:
        raise InputError(
            "data.mean got one number on every worker, which looks like a mean already taken over this worker's "
            "rows; give one value per row (reduction='none'), use data.cross_entropy and its like, or say "
            "single=True"
        )
    if refused:
        raise InputError(
            f"data.mean is given values that torch would not divide by their number: {reason or 'see rank 0'}; use "
            "data.cross_entropy(out, y, mask, weight=..., ignore_index=...), which divides as torch does"
        )
    if not divisor:
        raise InputError("the loss has no rows on any worker; check the mask")


def _weight_of(y: Tensor, weight: Tensor | None = None, ignore_index: int = -100, **_: Any) -> Tensor:
    """``sum of weight[y]`` over the labels that are not ignored: what torch divides the mean by."""
    counted = y != ignore_index
    if weight is None:
        return counted.sum()
    return (weight.detach()[torch.where(counted, y, 0)] * counted).sum()


def _number_of(values: Tensor) -> Tensor:
    """The number of ``values``, float64, where they are."""
    return torch.full((), float(values.numel()), dtype=torch.float64, device=values.device)
