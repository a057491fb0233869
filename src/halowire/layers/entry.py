"""The entry of a model: it turns input features into the first hidden rows, without sending anything."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from halowire.kernels import activate
from halowire.layers.aggregation import Sum
from halowire.layers.dense import empty_rows, gradient_of
from halowire.layers.features import Columns, FeatureMap, Inputs
from halowire.layers.layer import Work
from halowire.layers.rows import Rows


class Entry(ABC):
    """The first step of a model. Features never change, so other workers' features were fetched before training.

    A pass is :meth:`begin`, :meth:`forward` on all rows in any ranges, :meth:`backward` on all rows in any ranges,
    :meth:`end`.

    Attributes:
        width: columns of the first hidden rows.
    """

    width: int

    @property
    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """All parameters of the entry."""

    def begin(self, inputs: Inputs, rows: Rows) -> None:
        """Begin a pass over all ``rows`` of a part."""
        self.inputs = inputs

    @abstractmethod
    def forward(self, rows: Rows, out: Tensor, initial: Tensor | None) -> None:
        """Write the first hidden rows ``[m, width]`` to ``out`` and, if the model has them, its initial rows."""

    @abstractmethod
    def backward(self, rows: Rows, u: Tensor, grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add to the weight gradients everything that needs only the gradient ``grad`` of these rows.

        ``u`` are the rows that forward wrote. ``initial_grad`` is the gradient of the initial rows, if there are any.
        """

    @property
    def needs_all_rows(self) -> bool:
        """Whether :meth:`end` needs the gradients of all rows in one matrix."""
        return False

    def end(self, grad: Tensor | None) -> None:
        """End backward, after all rows; ``grad`` ``[n, width]`` is given where :attr:`needs_all_rows`."""
        return

    @property
    @abstractmethod
    def work(self) -> Work:
        """What the entry computes, forward and backward."""


class Projection(Entry):
    """``u = x W^T + b``, and the initial rows ``relu(u)`` where the model has them."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        """``weight`` is ``[width, F]``, ``bias`` is ``[width]``."""
        self.width = weight.shape[0]
        self._map = FeatureMap(weight)
        self._bias = bias

    @property
    def parameters(self) -> list[nn.Parameter]:
        """``W`` and ``b``."""
        return [self._map.weight, *([] if self._bias is None else [self._bias])]

    def forward(self, rows: Rows, out: Tensor, initial: Tensor | None) -> None:
        """Multiply the features of these rows."""
        self._map.forward(self.inputs.columns(rows.at), self._bias, out)
        if initial is not None:
            activate(out, None, None, True, None, out=initial)

    def backward(self, rows: Rows, u: Tensor, grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add to the gradients of ``W`` and ``b``."""
        if initial_grad is not None:
            grad.addcmul_(initial_grad, (u > 0).float())
        self._map.backward(self.inputs.columns(rows.at), grad)
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))

    def end(self, grad: Tensor | None) -> None:
        """Add the gradient that was summed over the pass to that of ``W``."""
        self._map.end()

    @property
    def work(self) -> Work:
        """One product forward and one backward."""
        return Work(feature_products=2 * self.width)


class FeatureSum(Entry):
    """Layer 0 of GCN and GraphSAGE, ``u = A x W^T + x W_self^T + b``.

    For dense features ``A x`` is computed once, before training. For sparse or very wide features every pass begins
    with ``z = x W^T`` of owned and halo rows, and ``A z`` is computed on the rows in work; backward multiplies by the
    transposed edges once, at the end. Where the policy sends the features in every epoch, as VARCO's code does, ``A x``
    of the boundary is computed from the rows that arrive: columns and rows that do not travel are zero, and no gradient
    is sent back.
    """

    def __init__(self, weight: nn.Parameter, weight_self: nn.Parameter | None, bias: nn.Parameter | None) -> None:
        """``weight`` and ``weight_self`` are ``[width, F]``, ``bias`` is ``[width]``."""
        self.width = weight.shape[0]
        self._map = FeatureMap(weight)
        self._self = None if weight_self is None else FeatureMap(weight_self)
        self._bias = bias
        self._z: tuple[Tensor, Tensor] | None = None
        self._boundary: Tensor | None = None

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Both weights and the bias."""
        found = [self._map.weight, None if self._self is None else self._self.weight, self._bias]
        return [parameter for parameter in found if parameter is not None]

    def begin(self, inputs: Inputs, rows: Rows) -> None:
        """Compute ``z`` where ``A x`` is not cached, or ``A x`` of the boundary where features are sent every epoch."""
        super().begin(inputs, rows)
        self._z = None
        self._boundary = None
        if inputs.halo is not None:
            self._z = inputs.whole().times(self._map.weight), inputs.halo.times(self._map.weight)
        elif inputs.own_boundary is not None and rows.training:
            self._receive(inputs, inputs.own_boundary)

    def _receive(self, inputs: Inputs, own: Tensor) -> None:
        edges = inputs.aggregation
        assert isinstance(edges, Sum) and isinstance(inputs.x, Tensor)
        message = edges.exchange.start(inputs.x, 0)
        self._boundary = empty_rows(own, *own.shape).copy_(own)
        edges.into(slice(0, edges.boundary)).add_halo(edges.exchange.arrive(message), self._boundary)

    def forward(self, rows: Rows, out: Tensor, initial: Tensor | None) -> None:
        """Write ``u`` of these rows, from the cached ``A x`` or from ``z``."""
        if self._z is None:
            self._map.forward(self._gathered(rows.at), self._bias, out)
        else:
            edges = self.inputs.aggregation
            assert isinstance(edges, Sum)
            edges.into(rows.at).sum(*self._z, out)
            if self._bias is not None:
                out += self._bias
        if self._self is not None:
            self.inputs.columns(rows.at).add_times(self._self.weight, out)

    def _gathered(self, at: slice) -> Columns:
        """The rows ``at`` of ``A x``, which lie either all in the boundary or all in the interior."""
        if self._boundary is not None and at.stop <= self._boundary.shape[0]:
            return Columns(self._boundary[at])
        return self.inputs.gathered_columns(at)

    def backward(self, rows: Rows, u: Tensor, grad: Tensor, initial_grad: Tensor | None) -> None:
        """Add to the gradients that need no other rows."""
        if self._z is None:
            self._map.backward(self._gathered(rows.at), grad)
        if self._self is not None:
            self._self.backward(self.inputs.columns(rows.at), grad)
        if self._bias is not None:
            gradient_of(self._bias).add_(grad.sum(0))

    @property
    def needs_all_rows(self) -> bool:
        """Whether ``A x`` is not cached: then sources of edges get gradients from any row."""
        return self._z is not None

    def end(self, grad: Tensor | None) -> None:
        """Add ``(inner^T grad)^T x + (halo^T grad)^T x_halo`` to the gradient of ``W`` where ``A x`` is not cached."""
        if self._z is not None:
            inputs, edges = self.inputs, self.inputs.aggregation
            assert grad is not None and isinstance(edges, Sum) and inputs.halo is not None
            self._map.backward(inputs.whole(), edges.own_back(grad))
            self._map.backward(inputs.halo, edges.halo_back(grad))
            self._z = None
        self._map.end()
        if self._self is not None:
            self._self.end()

    @property
    def work(self) -> Work:
        """Products and an activation; the aggregation is computed once in a run."""
        maps = 1 if self._self is None else 2
        return Work(values=self.width, feature_products=2 * maps * self.width)
