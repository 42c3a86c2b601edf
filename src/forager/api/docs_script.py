"""The script of `/docs`: sends the request of a "Try it" form and shows the answer.

The page has a ticket with which its forms work for twelve hours. A service key that is typed on the page stays in that
field: it is stored nowhere. Answers are shown as text, so
nothing in them can become part of the page.
"""

SCRIPT = """
'use strict';
function filled(form, where) {
  return [...form.querySelectorAll(`[data-in="${where}"]`)].filter((field) => field.value !== '');
}
function requestOf(form) {
  let path = form.dataset.path;
  for (const field of filled(form, 'path')) {
    path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
  }
  const query = new URLSearchParams();
  for (const field of filled(form, 'query')) {
    query.append(field.name, field.value);
  }
  const headers = {};
  for (const field of filled(form, 'header')) {
    headers[field.name] = field.value;
  }
  const key = document.getElementById('key').value;
  if (key) {
    headers['X-Service-Key'] = key;
  } else {
    headers['X-Page-Ticket'] = document.querySelector('meta[name="ticket"]').content;
  }
  const body = form.querySelector('textarea');
  const sent = body && body.value.trim() ? body.value : undefined;
  if (sent) {
    headers['Content-Type'] = 'application/json';
  }
  return [query.size ? `${path}?${query}` : path, { method: form.dataset.method, headers, body: sent }];
}
async function send(form) {
  const shown = form.querySelector('output');
  const [url, options] = requestOf(form);
  shown.textContent = 'Sending …';
  const began = performance.now();
  try {
    const answer = await fetch(url, options);
    const text = await answer.text();
    let body = text;
    try {
      body = JSON.stringify(JSON.parse(text), null, 2);
    } catch { /* not JSON: shown as it is */ }
    const took = Math.round(performance.now() - began);
    const cut = body.length > 100000 ? body.slice(0, 100000) + '\\n… (cut)' : body;
    shown.textContent = `${options.method} ${url}\\n${answer.status} ${answer.statusText}, ${took} ms\\n\\n${cut}`;
  } catch (error) {
    shown.textContent = `No answer: ${error.message}`;
  }
}
if (matchMedia('(max-width: 60rem)').matches) {
  document.querySelector('nav details').open = false;  // above the text it would fill several screens
}
document.addEventListener('submit', (event) => {
  event.preventDefault();
  send(event.target);
});
"""
