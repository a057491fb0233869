"""A codec of one's own: three levels per value, two bits each: ``python examples/own_codec.py``.

A row travels as its largest absolute value s and one of -s, 0, +s for every value, drawn so that the mean is the value
itself: P(+s) = max(v, 0) / s, P(-s) = max(-v, 0) / s. A row of k columns takes 4 + ceil(k / 4) bytes.
"""

import torch
import torch.nn.functional as F
from torch_geometric.nn.models import GraphSAGE

import halowire

PLACES = torch.tensor([1, 4, 16, 64], dtype=torch.uint8)  # four values in a byte


class Ternary(halowire.RowCodec):
    def row_bytes(self, columns):
        return 4 + -(-columns // 4)

    def encode_rows(self, rows, draws):
        scale = rows.abs().amax(1, keepdim=True)
        kept = draws.uniform(rows.shape[1]) * scale < rows.abs()
        digits = (kept * rows.sign() + 1).to(torch.uint8)  # 0, 1, 2
        digits = F.pad(digits, (0, -rows.shape[1] % 4), value=1)
        packed = (digits.view(len(rows), digits.shape[1] // 4, 4) * PLACES).sum(2, dtype=torch.uint8)
        return torch.cat([scale.view(torch.uint8), packed], 1)

    def decode_rows(self, data, columns):
        scale = data[:, :4].flatten().view(torch.float32)[:, None]
        digits = data[:, 4:, None] // PLACES % 4
        return (digits.flatten(1)[:, :columns].float() - 1) * scale


torch.manual_seed(0)
done = halowire.fit(
    GraphSAGE(16, 64, 2, 5),
    "sbm:nodes=2000,edges=20000,features=16,classes=5",
    workers=2,
    codec=Ternary(),
    settings={"epochs": 30, "optim.lr": 0.01, "wire.plain": True},  # every row is sent
    quiet=True,
)
sent, exact = done.summary["wire_bytes_per_epoch"], sum(done.summary["partition"]["halo_rows"]) * 2 * 4 * 64
print(f"{sent:.0f} bytes per epoch ({exact} in float32), test accuracy {done.summary['test']:.4f}")
