// Trees: from brackets to nodes and back. A node has label, children or word, start and end. Trees with gaps are in
// discbracket, with the position of each word; their nodes have the words from start to end, or some of them, and their
// root is marked by `crosses`.

const PIECE = /[()]|[^()\s]+/g;
const PLACED = /^(\d{1,9})=(.+)$/s;

// Read one tree; `words`, if given, are what stands at the leaves, in place of how brackets spell them.
export function readTree(text, words) {
  const root = readBrackets(text, words);
  const leaves = nodesOf(root).filter((node) => node.word !== null);
  const found = leaves.map((node) => PLACED.exec(node.spelled));
  const order = found.map((match) => (match ? Number(match[1]) : -1));
  const inOrder = order.every((place, i) => place === i);
  if (inOrder || [...order].sort((a, b) => a - b).some((place, i) => place !== i)) return root;
  leaves.forEach((node, i) => {
    node.start = order[i];
    node.end = order[i] + 1;
    node.word = words?.[order[i]] ?? found[i][2].replaceAll("#LRB#", "(").replaceAll("#RRB#", ")");
  });
  for (const node of nodesOf(root).reverse()) {
    if (node.word !== null) continue;
    node.start = Math.min(...node.children.map((child) => child.start));
    node.end = Math.max(...node.children.map((child) => child.end));
  }
  root.crosses = true;
  return root;
}

function readBrackets(text, words) {
  const stack = [];
  let root = null;
  let position = 0;
  let opened = false;
  for (const [piece] of text.matchAll(PIECE)) {
    if (piece === "(") {
      if (opened) stack.at(-1).label = "";
      const node = { label: null, children: [], word: null, start: position, end: position, parent: stack.at(-1) ?? null };
      if (stack.length) stack.at(-1).children.push(node);
      else root = node;
      stack.push(node);
      opened = true;
    } else if (piece === ")") {
      stack.pop().end = position;
      opened = false;
    } else if (opened) {
      stack.at(-1).label = piece;
      opened = false;
    } else {
      stack.at(-1).word = words?.[position] ?? piece;
      stack.at(-1).spelled = piece;
      position += 1;
    }
  }
  return root;
}

// All nodes, parents before children, left to right.
export function nodesOf(root) {
  const found = [];
  const stack = [root];
  while (stack.length) {
    const node = stack.pop();
    found.push(node);
    for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i]);
  }
  return found;
}

export const leavesOf = (root) => nodesOf(root).filter((node) => node.word !== null).sort((a, b) => a.start - b.start);
// The runs of adjacent words of a node, as pairs of start and end.
export function blocksOf(root) {
  const blocks = [];
  for (const { start } of leavesOf(root)) {
    if (blocks.length && blocks.at(-1)[1] === start) blocks.at(-1)[1] = start + 1;
    else blocks.push([start, start + 1]);
  }
  return blocks;
}
export const wordsOf = (root) => leavesOf(root).map((node) => node.word);
export const keyOf = (node) => `${node.start} ${node.end} ${node.label}${node.word === null ? "" : " tag"}`;

// The nodes of one tree that are not in the other; the same bracket twice counts twice.
export function difference(one, other) {
  const left = new Map();
  for (const node of nodesOf(other)) left.set(keyOf(node), (left.get(keyOf(node)) ?? 0) + 1);
  return nodesOf(one).filter((node) => {
    const key = keyOf(node);
    if (!left.get(key)) return true;
    left.set(key, left.get(key) - 1);
    return false;
  });
}
