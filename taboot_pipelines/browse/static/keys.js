// The keyboard: what /keys says; and what a small screen shows first. Pages work without this.
"use strict";

const box = document.getElementById("q");
// Of a picture and of the list below it only one is shown at some widths.
const items = () => [...document.querySelectorAll("[data-item]")].filter((x) => x.getClientRects().length);

function move(by) {
  const all = items();
  if (!all.length) return false;
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
  all[next].focus();
  all[next].scrollIntoView({ block: "nearest" });
  return true;
}

function follow(rel) {
  const link = document.querySelector(`a[rel="${rel}"]`);
  if (link) link.click();
  else if (rel === "prev") history.back();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const active = document.activeElement;
  if (active === box) {
    if (event.key === "Escape") box.blur();
    else if (event.key === "ArrowDown" && move(1)) event.preventDefault();
    return;
  }
  if (active && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName)) return;
  const onItem = active && active.hasAttribute("data-item");
  switch (event.key) {
    case "/":
      box.focus();
      box.select();
      break;
    case "j":
      move(1);
      break;
    case "k":
      move(-1);
      break;
    case "ArrowDown":
    case "ArrowUp":
      if (!onItem) return;
      move(event.key === "ArrowDown" ? 1 : -1);
      break;
    case "n":
      follow("next");
      break;
    case "p":
      follow("prev");
      break;
    case "g":
      location.assign("/");
      break;
    case "?":
      location.assign("/keys");
      break;
    default:
      return;
  }
  event.preventDefault();
});

// A picture wider than the screen begins with what it is of.
for (const picture of document.querySelectorAll(".picture")) {
  const [own, centre] = [picture, picture.querySelector("rect[stroke]")].map((x) => x.getBoundingClientRect());
  picture.scrollLeft = centre.left + centre.width / 2 - own.left - own.width / 2;
}
