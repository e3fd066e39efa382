// Pairs of texts of the picture that lie over one another, and texts that leave it.
() => {
  const texts = [...document.querySelectorAll(".picture text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right - .5 && b.left < a.right - .5 && a.top < b.bottom - .5 && b.top < a.bottom - .5;
  const found = [];
  texts.forEach(([t, a], i) => texts.slice(i + 1).forEach(([u, b]) => { if (meet(a, b)) found.push([t, u]); }));
  const frame = document.querySelector(".picture svg").getBoundingClientRect();
  texts.forEach(([t, a]) => { if (a.left < frame.left - 1 || a.right > frame.right + 1) found.push([t, "outside"]); });
  return found;
}
