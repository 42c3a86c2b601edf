"use strict";
// Everything that Google sent is set as text, never as HTML. What is drawn is bounded; the counts are of everything.
const MOST_LOCATIONS = 500, MOST_REVIEWS = 50, RECONNECT_MS = 2000;
const $ = (id) => document.getElementById(id);
const headers = { "X-Page-Ticket": document.querySelector("meta[name=ticket]").content };
const counts = { accounts: 0, locations: 0, reviews: 0 };
const accounts = new Map(), locations = new Map();

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function say(text, className = "") {
  $("status").hidden = false;
  $("status").className = className;
  $("status").textContent = text;
}

function count(name) {
  counts[name] += 1;
  $(name).textContent = counts[name].toLocaleString("en");
}

function branch(parent, title, open) {
  const made = element("details"), summary = element("summary"), figure = element("span");
  made.open = open;
  summary.append(element("b", "", title), figure);
  made.append(summary);
  parent.append(made);
  return { box: made, figure, drawn: 0, found: 0, more: null };
}

function note(place, most, what) {
  place.found += 1;
  place.figure.textContent = `${place.found.toLocaleString("en")} ${what}`;
  if (place.drawn < most) { place.drawn += 1; return true; }
  if (!place.more) { place.more = element("p", "more"); place.box.append(place.more); }
  place.more.textContent = `and ${(place.found - place.drawn).toLocaleString("en")} more`;
  return false;
}

const draw = {
  account(found) {
    count("accounts");
    accounts.set(found.account_id, branch($("tree"), found.account_name || found.account_id, true));
  },
  location(found) {
    count("locations");
    const account = accounts.get(found.account_id);
    if (!account || !note(account, MOST_LOCATIONS, "locations")) return;
    locations.set(`${found.account_id}/${found.location_id}`, branch(account.box, found.title || found.location_id, false));
  },
  review(found) {
    count("reviews");
    const location = locations.get(`${found.account_id}/${found.location_id}`);
    if (!location || !note(location, MOST_REVIEWS, "reviews")) return;
    if (!location.list) { location.list = element("ul"); location.box.append(location.list); }
    const line = element("li"), stars = element("span", "stars", "★".repeat(found.rating || 0));
    stars.setAttribute("aria-label", found.rating ? `${found.rating} of 5 stars` : "no rating");
    const who = (found.reviewer || {}).displayName || "";
    line.append(stars, element("span", "", found.text || ""), element("span", "who", who ? ` — ${who}` : ""));
    location.list.append(line);
  },
};

function act(frame, state) {
  let name = "message", data = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith("id: ")) state.last = line.slice(4);
    else if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (name in draw) draw[name](JSON.parse(data));
  if (name === "end") state.ended = true;
}

async function read(job, state) {
  const sent = state.last ? { ...headers, "Last-Event-ID": state.last } : headers;
  const answer = await fetch(`/api/v1/demo/stream/nested?job_id=${encodeURIComponent(job)}`, { headers: sent });
  if (!answer.ok) throw new Error(await problem(answer));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) act(frame, state);
  }
}

async function problem(answer) {
  try { return (await answer.json()).error || answer.statusText; } catch { return answer.statusText; }
}

async function follow(job) {
  const state = { last: "", ended: false };
  location.hash = job;
  $("counts").hidden = false;
  say(`Job ${job} is running.`);
  while (!state.ended) {
    try { await read(job, state); } catch (error) { say(`${error.message} Trying again.`, "failed"); }
    if (!state.ended) await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
  const answer = await fetch(`/api/v1/review-fetch/${job}`, { headers });
  const seen = answer.ok ? (await answer.json()).data : { status: "completed", failures: 0 };
  const failed = seen.failures ? ` ${seen.failures.toLocaleString("en")} ${seen.failures === 1 ? "page" : "pages"} could not be fetched: ${seen.error}` : "";
  say(`Job ${job}: ${seen.status.replace("_", " ")}.${failed}`, seen.failures ? "failed" : "ended");
}

$("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button"), body = JSON.stringify({ access_token: $("token").value.trim() });
  button.disabled = true;
  try {
    const sent = { ...headers, "Content-Type": "application/json" };
    const answer = await fetch("/api/v1/review-fetch", { method: "POST", headers: sent, body });
    if (!answer.ok) { say(await problem(answer), "failed"); return; }
    $("token").value = "";
    for (const name of Object.keys(counts)) { counts[name] = 0; $(name).textContent = "0"; }
    accounts.clear(); locations.clear(); $("tree").replaceChildren();
    await follow((await answer.json()).data.job_id);
  } catch (error) {
    say(`Forager does not answer: ${error.message}`, "failed");
  } finally { button.disabled = false; }
});

if (/^#[0-9a-f-]{36}$/.test(location.hash)) follow(location.hash.slice(1));
