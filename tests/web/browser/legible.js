// Return the elements of a page whose text has too little contrast with what is behind it.

const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function rgba(text) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}
const light = ([r, g, b]) => [r, g, b].map((x) => x / 255).map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
  .reduce((sum, x, n) => sum + x * [0.2126, 0.7152, 0.0722][n], 0);
function behind(node) {
  const layers = [];
  for (let at = node; at; at = at.parentElement) {
    if (at instanceof SVGElement && at !== node.ownerSVGElement) continue;
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if (colour[3] > 0) layers.push(colour);
    if (colour[3] >= 0.999) break;
  }
  return layers.reverse().reduce((under, [r, g, b, a]) => [r, g, b].map((x, n) => a * x + (1 - a) * under[n]), [255, 255, 255]);
}
const poor = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  const box = node.getBoundingClientRect();
  if (!own || !box.width || node.closest(".unseen, .skip, [hidden], :disabled, option")) continue;
  const svgText = node.matches("svg text");
  const pill = svgText && node.parentElement.querySelector(".pill");
  if (svgText && (node.matches(".in-cell") || (node.matches(".label") && !pill))) continue;
  const style = getComputedStyle(node);
  const ink = rgba(svgText ? style.fill : style.color);
  const paper = svgText && node.matches(".label") ? rgba(getComputedStyle(pill).fill) : behind(node);
  const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < 4.5) poor.push(`${node.tagName}.${node.getAttribute("class")} ${node.textContent.trim().slice(0, 20)} ${contrast.toFixed(2)}`);
}
return [...new Set(poor)];
