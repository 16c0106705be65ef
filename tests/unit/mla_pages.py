"""A paged FP8 cache of a sparse MLA decode, written token by token."""

import torch


class Pages:
    """A cache of ``page_size`` whose bytes are set token by token; all else is 0xFF, NaN in every format."""

    def __init__(self, num_pages, page_size, padding=64):
        self.page_size = page_size
        self.bytes = torch.full((num_pages, page_size * 584 + padding), 0xFF, dtype=torch.uint8)
        self.view = self.bytes.as_strided((num_pages, page_size, 1, 584), (self.bytes.stride(0), 584, 584, 1))

    def put(self, index, *, codes=(0,) * 448, scales=(127,) * 7, rope=(0.0,) * 64):
        """Write one token; sequences shorter than their field are repeated."""
        page, offset = self.bytes[index // self.page_size], index % self.page_size
        page[offset * 576 : offset * 576 + 448] = torch.tensor(list(codes) * (448 // len(codes)), dtype=torch.uint8)
        rope = torch.tensor(list(rope) * (64 // len(rope)), dtype=torch.bfloat16)
        page[offset * 576 + 448 : offset * 576 + 576] = rope.view(torch.uint8)
        start = self.page_size * 576 + offset * 8
        page[start : start + 7] = torch.tensor(list(scales) * (7 // len(scales)), dtype=torch.uint8)
