"""The encoder all-MiniLM-L6-v2 in PyTorch: its shape, not its weights, for time does not depend on them."""

import torch
from torch.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from torch.nn.functional import gelu, normalize, scaled_dot_product_attention

LAYERS, HIDDEN, HEADS, WIDE, EPS = 6, 384, 12, 1536, 1e-12
WORDS, POSITIONS, KINDS = 30522, 512, 2


class Layer(Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.up, self.down = Linear(HIDDEN, WIDE), Linear(WIDE, HIDDEN)
        self.attention_norm, self.norm = LayerNorm(HIDDEN, eps=EPS), LayerNorm(HIDDEN, eps=EPS)

    def forward(self, x, mask):
        sentences, length, _ = x.shape
        heads = lambda y: y.view(sentences, length, HEADS, HIDDEN // HEADS).transpose(1, 2)
        seen = scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), attn_mask=mask
        )
        x = self.attention_norm(x + self.out(seen.transpose(1, 2).reshape(sentences, length, HIDDEN)))
        return self.norm(x + self.down(gelu(self.up(x))))


class Encoder(Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions, self.kinds = (Embedding(n, HIDDEN) for n in (WORDS, POSITIONS, KINDS))
        self.norm = LayerNorm(HIDDEN, eps=EPS)
        self.layers = ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, ids, mask):
        positions = torch.arange(ids.shape[1])
        x = self.norm(self.words(ids) + self.positions(positions) + self.kinds(torch.zeros_like(ids)))
        for layer in self.layers:
            x = layer(x, mask)
        return normalize(x.mean(dim=1))
