// The contrast of every visible text with what is beneath it: those of forms and pictures included.
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const luminance = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126*r + 0.7152*g + 0.0722*b; };
  const ground = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      if (at instanceof SVGElement && (at.tagName === "a" || at.tagName === "g")) {
        const box = at.querySelector(":scope > rect"); if (box) layers.push(rgba(getComputedStyle(box).fill));
      }
      if (!(at instanceof SVGElement)) layers.push(rgba(getComputedStyle(at).backgroundColor));
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [];
  const add = (e, text, colour, pseudo) => {
    const style = getComputedStyle(e, pseudo), below = ground(e), fore = over(rgba(colour), below);
    const [a, b] = [luminance(fore), luminance(below)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    found.push({ text: text.trim().slice(0, 40), ratio: (a + 0.05) / (b + 0.05), least: large ? 3 : 4.5 });
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.textContent;
    if (!text.trim() || ["SCRIPT", "STYLE", "title"].includes(e.tagName) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    if (style.visibility === "hidden") continue;
    add(e, text, e instanceof SVGElement ? style.fill : style.color);
  }
  for (const e of document.querySelectorAll("input[type=search]")) {
    add(e, e.placeholder, getComputedStyle(e, "::placeholder").color, "::placeholder");
    add(e, e.value || "value", getComputedStyle(e).color);
  }
  return found;
}
