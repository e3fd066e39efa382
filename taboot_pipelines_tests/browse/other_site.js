// What a page of another origin gets of ours: a script, an image, an answer, a blind one.
async (base) => {
const load = (make) => new Promise((done) => { const e = make();
  e.onload = () => done("loaded"); e.onerror = () => done("error"); document.body.append(e); });
const script = await load(() => Object.assign(document.createElement("script"), { src: base + "/static/keys.js" }));
const image = await load(() => Object.assign(new Image(), { src: base + "/static/icon.svg" }));
const read = await fetch(base + "/", { credentials: "include" }).then(() => "read", () => "error");
const blind = await fetch(base + "/", { credentials: "include", mode: "no-cors" }).then((r) => r.type, () => "error");
return [script, image, read, blind];
}
