// What the pages do in the browser: previews while a slider moves, progress of a job, files that are dropped, undo by key.
// Everything works without it, by the buttons of the forms.

const csrf = document.querySelector('meta[name="csrf"]').content;
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;

async function part(address, options = {}) {
  const headers = { "x-fragment": "1", "x-csrf-token": csrf, ...options.headers };
  const answer = await fetch(address, { ...options, headers });
  return { text: await answer.text(), fine: answer.ok };
}

// --- previews: the last change wins, earlier answers are thrown away ---

function fields(of) {
  if (of.matches("form")) return new URLSearchParams(new FormData(of));
  const found = new URLSearchParams();
  for (const field of of.querySelectorAll("input[name], select[name], textarea[name]")) {
    if (!["checkbox", "radio"].includes(field.type) || field.checked) found.append(field.name, field.value);
  }
  return found;
}

for (const form of document.querySelectorAll("[data-preview]")) {
  const target = document.querySelector(form.dataset.target);
  let running = null;
  const show = async () => {
    running?.abort();
    const mine = (running = new AbortController());
    target.setAttribute("aria-busy", "true");
    try {
      const { text } = await part(form.dataset.preview, { method: "POST", body: fields(form), signal: mine.signal });
      target.innerHTML = text;
      target.dataset.shown = String(Number(target.dataset.shown ?? 0) + 1);
    } catch (problem) {
      if (problem.name !== "AbortError") target.textContent = "The studio does not answer. Is its terminal still open?";
    } finally {
      if (running === mine) target.removeAttribute("aria-busy");
    }
  };
  form.addEventListener("input", show);
  if (form.dataset.now !== undefined) show();
}

// --- what is offered depends on a choice: parts name the choices that they go with ---

for (const choice of document.querySelectorAll("[data-chooses]")) {
  const parts = [...document.querySelectorAll(`[data-for="${CSS.escape(choice.dataset.chooses)}"]`)];
  const offer = () => {
    const chosen = choice.querySelector("input:checked")?.value;
    for (const part of parts) part.hidden = !part.dataset.values.split(" ").includes(chosen);
    const radio = parts.find((part) => !part.hidden)?.querySelector("input[type=radio]");
    if (radio && !parts.some((part) => !part.hidden && part.querySelector("input[type=radio]:checked"))) radio.checked = true;
  };
  choice.addEventListener("input", offer); // before the form's own, which asks for the preview
  offer();
}

// --- a filter of a long list ---

for (const filter of document.querySelectorAll("input[data-filter]")) {
  const lines = [...document.querySelectorAll(filter.dataset.filter)];
  filter.addEventListener("input", () => {
    const sought = filter.value.toLowerCase();
    for (const line of lines) line.hidden = !line.dataset.name.toLowerCase().includes(sought);
  });
}

// --- numbers beside sliders, and the other way round ---

for (const slider of document.querySelectorAll("input[type=range][data-with]")) {
  slider.hidden = false;
  const field = document.getElementById(slider.dataset.with);
  slider.addEventListener("input", () => (field.value = slider.value));
  field.addEventListener("input", () => (slider.value = field.value));
}

// --- forms that are sent when a choice is made ---

for (const form of document.querySelectorAll("form[data-on-change]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

// --- a job: look a few times a second, and load the page again when it has ended ---

const job = document.getElementById("job");
if (job?.dataset.job === "running") {
  const look = async () => {
    try {
      const { text } = await part("/job");
      const made = new DOMParser().parseFromString(text, "text/html").getElementById("job");
      if (made.dataset.job !== "running") return location.reload();
      // only what changes: the button keeps its focus
      const [bar, words] = [job.querySelector("progress"), job.querySelector("p")];
      const [newBar, newWords] = [made.querySelector("progress"), made.querySelector("p")];
      if (newBar.hasAttribute("value")) bar.value = newBar.value;
      if (words.textContent !== newWords.textContent) words.textContent = newWords.textContent;
    } catch {
      job.querySelector("p").textContent = "The studio does not answer. Is its terminal still open?";
    }
    setTimeout(look, 400);
  };
  setTimeout(look, 400);
}

// --- a file that is dropped ---

for (const area of document.querySelectorAll("[data-drop]")) {
  const send = async (file) => {
    if (!file) return;
    const headers = { "x-file-name": encodeURIComponent(file.name), "content-type": "application/octet-stream" };
    const { text, fine } = await part(area.dataset.drop, { method: "POST", body: file, headers });
    if (fine) location.assign("/");
    else area.querySelector("[data-told]").innerHTML = text;
  };
  area.hidden = false;
  area.addEventListener("dragover", (event) => event.preventDefault());
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    send(event.dataTransfer.files[0]);
  });
  area.querySelector("input[type=file]").addEventListener("change", (event) => send(event.target.files[0]));
}

// --- undo and redo by key, where no text is being written ---

document.addEventListener("keydown", (event) => {
  const writing = event.target.closest("input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select");
  if (writing || !(event.ctrlKey || event.metaKey)) return;
  const key = event.shiftKey && event.key.toLowerCase() === "z" ? "y" : event.key.toLowerCase();
  const button = document.querySelector(`button[data-key="${CSS.escape(key)}"]:not(:disabled)`);
  if (button) {
    event.preventDefault();
    button.form.requestSubmit(button);
  }
});

// --- questions that may take seconds: their button says that they are asked, until the page is shown again ---

for (const form of document.querySelectorAll("form[data-asking]")) {
  const button = form.querySelector("button");
  const said = button.textContent;
  form.addEventListener("submit", () => {
    button.textContent = form.dataset.asking;
    button.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return; // the first show may come after somebody asked
    button.textContent = said;
    button.removeAttribute("aria-busy");
  });
}

// --- copy ---

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

const asked = new URLSearchParams(location.search).get("at");
if (asked) document.getElementById(asked)?.scrollIntoView({ behavior: still ? "auto" : "smooth" });
