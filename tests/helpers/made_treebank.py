"""A small treebank of sentences of our own: the included model's trees, some of them its second choice."""

from __future__ import annotations

import sapwood

TEXT = """
The museum that we visited last summer has closed. She saw the man with the telescope. Nobody in the village
knew why the bell had stopped. The old bridge was built by monks in 1312. He gave his sister a book about
birds. If it rains tomorrow, we will stay at home. The children who live next door have painted the fence
green. My neighbour wants to sell his boat. They were looking for a place to eat. Most of the letters that she
wrote were never sent. The train to Leeds leaves at noon. What did you say to the teacher? I have not read the
report yet. A cat slept on the warm stones beside the well. The council decided to close the road because the
river was rising. Her first novel, which took ten years, sold badly. It is hard to say who was right. We
walked along the shore and talked about the war. The farmer's dog barked at the postman. There is a small shop
on the corner. Run! The engineers tested the new engine for three weeks. You can see the mountains from the
kitchen window. He said that he had lost the keys. Cold soup is not a meal. The choir sang two songs and left.
She teaches mathematics at the school in the valley. Some people prefer the winter. The price of oil rose
again in March. I met a man with a dog in the park with the fountain. That was the day when the clock broke.
"""


def made_treebank() -> list[sapwood.Tree]:
    """Return the trees; every fourth is the second best."""
    parser = sapwood.Parser(alternatives=2)
    trees = []
    for number, result in enumerate(parser.parse_text(TEXT)):
        best = [one.tree for one in result.alternatives if one.tree != result.tree]
        trees.append(best[0] if number % 4 == 1 and best else result.tree)
    return trees
