const gib = 2 ** 30, points = data.points.filter(p => p.legal), names = data.vary.map(v => v.path);
const short = path => path.slice(path.lastIndexOf('.') + 1);
const compare = data.step_times_compare;
const cost = p => compare ? p.step_time_s : p.step_time_s * p.num_gpus / p.tokens_per_step * 1e6;
const costName = compare ? 'step time, s' : 'GPU-seconds per million tokens';
const colours = ['#2f6fde', '#e08a1e', '#2a9d6f', '#b14fc5', '#d1495b', '#00838f', '#8d6e42', '#5c6bc0',
                 '#7c9a1e', '#c2185b'];
const svg = document.getElementById('plot'), by = document.getElementById('by');
const tip = document.getElementById('tip');
const make = (tag, attributes, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
};
const digits = v => v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v >= 1 ? v.toFixed(2) : v.toPrecision(3);
const figures = p => [[costName, digits(cost(p))], ['peak, GiB', (p.peak_allocated_bytes / gib).toFixed(2)],
  ['of it at rest, GiB', (p.peak_resident_bytes / gib).toFixed(2)], ['on rank', p.worst_rank],
  ['bubble', (100 * p.bubble_fraction).toFixed(2) + ' %'], ['exposed comm, s', digits(p.exposed_comm_s)],
  ['tokens/s', p.tokens_per_s.toFixed(0)], ['MFU', (100 * p.mfu).toFixed(1) + ' %'], ['engine', p.engine]];
function ticks(low, high) {
  const raw = (high - low) / 6, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw), list = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) list.push(v);
  return list;
}
function show(event, p) {
  const lines = names.map(n => [short(n), p.set[n]]).concat(figures(p));
  const width = Math.max(...lines.map(l => l[0].length));
  tip.textContent = lines.map(l => l[0].padEnd(width) + '  ' + l[1]).join('\n') + (p.fits ? '' : '\ndoes not fit');
  tip.style.display = 'block';
  tip.style.fontFamily = 'ui-monospace, monospace';
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
}
function draw() {
  svg.replaceChildren();
  if (!points.length) return;
  const left = 64, right = 1024, top = 12, bottom = 470, capacity = Math.max(...points.map(p => p.capacity_bytes)) / gib;
  const xs = points.map(cost), ys = points.map(p => p.peak_allocated_bytes / gib);
  let x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...ys), y1 = Math.max(...ys);
  if (capacity < y1 * 1.6 && capacity > y0 * 0.6) { y0 = Math.min(y0, capacity); y1 = Math.max(y1, capacity); }
  const pad = (a, b) => (b - a) * 0.05 || Math.abs(a) * 0.05 || 1;
  [x0, x1] = [x0 - pad(x0, x1), x1 + pad(x0, x1)]; [y0, y1] = [y0 - pad(y0, y1), y1 + pad(y0, y1)];
  const x = v => left + (v - x0) / (x1 - x0) * (right - left), y = v => bottom - (v - y0) / (y1 - y0) * (bottom - top);
  for (const v of ticks(x0, x1)) {
    svg.append(make('line', {x1: x(v), x2: x(v), y1: top, y2: bottom, class: 'axis'}));
    svg.append(make('text', {x: x(v), y: bottom + 18, 'text-anchor': 'middle'}, +v.toPrecision(6)));
  }
  for (const v of ticks(y0, y1)) {
    svg.append(make('line', {x1: left, x2: right, y1: y(v), y2: y(v), class: 'axis'}));
    svg.append(make('text', {x: left - 8, y: y(v) + 4, 'text-anchor': 'end'}, +v.toPrecision(6)));
  }
  svg.append(make('text', {x: right, y: bottom + 40, 'text-anchor': 'end'}, costName));
  svg.append(make('text', {x: 14, y: top + 4, transform: `rotate(-90 14 ${top + 4})`, 'text-anchor': 'end'},
                  'peak of the worst rank, GiB'));
  if (capacity >= y0 && capacity <= y1) {
    svg.append(make('line', {x1: left, x2: right, y1: y(capacity), y2: y(capacity), class: 'limit'}));
    svg.append(make('text', {x: right - 4, y: y(capacity) - 6, 'text-anchor': 'end', class: 'limit-text'},
                    `memory of a GPU, ${capacity.toFixed(1)} GiB`));
  }
  const front = points.filter(p => p.on_front).sort((a, b) => cost(a) - cost(b));
  svg.append(make('polyline', {class: 'front', points: front.map(p => `${x(cost(p))},${y(p.peak_allocated_bytes / gib)}`).join(' ')}));
  const values = (data.vary.find(v => v.path === by.value) || {values: []}).values;
  const colour = p => colours[Math.max(values.indexOf(p.set[by.value]), 0) % colours.length];
  document.getElementById('keys').replaceChildren(...values.map((v, i) => {
    const key = document.createElement('span'), dot = document.createElement('i');
    key.className = 'key'; dot.style.background = colours[i % colours.length];
    key.append(dot, v); return key; }));
  for (const p of points) {
    const dot = make('circle', {cx: x(cost(p)), cy: y(p.peak_allocated_bytes / gib), r: p.on_front ? 6 : 4.5,
                                stroke: colour(p), fill: p.fits ? colour(p) : 'var(--paper)'});
    dot.addEventListener('mousemove', e => show(e, p));
    dot.addEventListener('mouseleave', () => tip.style.display = 'none');
    svg.append(dot);
  }
}
let order = cost, down = false;
function list() {
  const table = document.getElementById('list'), head = document.createElement('tr');
  const columns = [['', p => p.on_front ? '*' : '', p => p.on_front ? 0 : 1]]
    .concat(names.map(n => [short(n), p => p.set[n], p => isNaN(p.set[n]) ? p.set[n] : +p.set[n]]))
    .concat([[costName, p => digits(cost(p)), cost],
      ['peak, GiB', p => (p.peak_allocated_bytes / gib).toFixed(2), p => p.peak_allocated_bytes],
      ['bubble', p => (100 * p.bubble_fraction).toFixed(2) + ' %', p => p.bubble_fraction],
      ['MFU', p => (100 * p.mfu).toFixed(1) + ' %', p => p.mfu]]);
  for (const [name, , key] of columns) {
    const cell = document.createElement('th');
    cell.textContent = name;
    cell.onclick = () => { down = order === key && !down; order = key; list(); };
    head.append(cell);
  }
  const sorted = [...points].sort((a, b) => {
    const u = order(a), v = order(b);
    return (u < v ? -1 : u > v ? 1 : 0) * (down ? -1 : 1); });
  table.replaceChildren(head, ...sorted.slice(0, 500).map(p => {
    const row = document.createElement('tr');
    row.className = (p.fits ? '' : 'over ') + (p.on_front ? 'on' : '');
    for (const [, text] of columns) { const cell = document.createElement('td'); cell.textContent = text(p); row.append(cell); }
    return row; }));
}
document.getElementById('about').textContent = `${data.points.length} points, ${points.length} legal, ` +
  `${points.filter(p => p.fits).length} fit. The line joins the points that no other beats; hollow ones do not fit.`;
by.append(...data.vary.map(v => { const o = document.createElement('option'); o.value = v.path; o.textContent = short(v.path); return o; }));
by.onchange = draw;
const why = {};
for (const p of data.points) for (const text of p.problems || []) why[text] = (why[text] || 0) + 1;
if (Object.keys(why).length) {
  const box = document.getElementById('why'), line = document.createElement('summary');
  line.textContent = `${data.points.length - points.length} points are not legal: why`;
  box.append(line, ...Object.entries(why).sort((a, b) => b[1] - a[1]).slice(0, 200).map(([text, n]) => {
    const p = document.createElement('div'); p.textContent = `${n} x  ${text}`; return p; }));
}
draw(); list();
