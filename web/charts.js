// Curves: every figure of steps.jsonl, of one run or of several, over steps or time.

const DEFAULTS = [
  'reward_mean', 'pass_rate', 'compile_rate', 'loss', 'entropy', 'grad_norm', 'turns_mean', 'seconds',
  'train_rollout_logprob_abs_diff', 'lr', 'validation_pass_rate', 'on_policy_fraction'
];
const isShare = (figure) => /_rate$|_rate_|fraction|^mfu$/.test(figure);
const COLOURS = 8;
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [ 400, 200, 52, 24, 8, 18 ];

function niceTicks(low, high, count) {
  const raw = (high - low) / count;
  const scale = 10 ** Math.floor(Math.log10(raw));
  const step = [ 1, 2, 2.5, 5, 10 ].map((n) => n * scale).find((n) => n >= raw * 0.999);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) {
    ticks.push(Math.abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return ticks;
}

// The mean over a centred window as wide at the ends as there is room: it neither lags nor ends on one raw value.
function smooth(points, strength) {
  const reach = Math.floor((points.length * strength) / 200);
  if (reach < 1) return points;
  const sums = [ 0 ];
  for (const [, y] of points) sums.push(sums[sums.length - 1] + y);
  return points.map(([ x ], i) => {
    const from = Math.max(0, i - reach), to = Math.min(points.length, i + reach + 1);
    return [ x, (sums[to] - sums[from]) / (to - from) ];
  });
}

function scaleOf(lines, {log, share}) {
  const values = lines.flatMap((line) => line.points.map((p) => p[1])).filter((y) => !log || y > 0);
  let low = Math.min(...values), high = Math.max(...values);
  if (log) {
    [low, high] = [ Math.log10(low), Math.log10(high) ];
    if (high - low < 0.1) [low, high] = [ low - 0.5, high + 0.5 ];
    return {low, high, of : Math.log10, ticks : niceTicks(low, high, 4).map((tick) => 10 ** tick)};
  }
  if (share && low >= 0 && high <= 1)
    [low, high] = [ 0, 1 ];
  else if (low > 0 && low < 0.5 * high)
    low = 0;
  if (high - low < 1e-12)
    [low, high] = [ low - Math.max(0.5, 0.1 * Math.abs(low)), high + Math.max(0.5, 0.1 * Math.abs(high)) ];
  else if (!share)
    high += 0.05 * (high - low);
  return {low, high, of : (y) => y, ticks : niceTicks(low, high, 4)};
}

// lines: [{ name, colour, points: [[x, y]] }]. options: { title, help, share, log, smoothing, time, zoom(from, to)
// }.
function chart(lines, options) {
  const format = options.share ? percent : short;
  const shown = lines.map((line) => ({...line, points : line.points.filter((p) => !options.log || p[1] > 0)}))
                    .filter((line) => line.points.length > 0);
  if (shown.length === 0) return null;
  const xs = shown.flatMap((line) => [line.points[0][0], line.points[line.points.length - 1][0]]);
  const first = Math.min(...xs), last = Math.max(...xs) > first ? Math.max(...xs) : first + 1;
  const scale = scaleOf(shown, options);
  const x = (value) => LEFT + ((WIDTH - LEFT - RIGHT) * (value - first)) / (last - first);
  const y = (value) =>
      HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (scale.of(value) - scale.low)) / (scale.high - scale.low);
  const picture = svg('svg', {
    viewBox : `0 0 ${WIDTH} ${HEIGHT}`,
    tabindex : 0,
    role : 'img',
    'aria-label' : `${options.title}: ${
        shown.map((l) => `${l.name} ends at ${format(l.points[l.points.length - 1][1])}`).join(', ')}`
  });
  for (const tick of scale.ticks) {
    picture.append(
        svg('line', {x1 : LEFT, x2 : WIDTH - RIGHT, y1 : y(tick), y2 : y(tick), class : 'axis'}),
        svg('text', {x : LEFT - 6, y : y(tick) + 4, 'text-anchor' : 'end', class : 'tick'},
            options.share ? `${Math.round(100 * tick)} %` : short(tick)));
  }
  for (const tick of niceTicks(first, last, 5).filter((t) => options.time || Number.isInteger(t))) {
    picture.append(
        svg('text', {x : x(tick), y : HEIGHT - 7, 'text-anchor' : 'middle', class : 'tick'},
            options.time ? duration(tick) : tick.toLocaleString('en')));
  }
  const path = (points) =>
      points.map(([ a, b ], n) => `${n ? 'L' : 'M'}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join('');
  for (const line of shown) {
    const calm = options.log ? line.points : smooth(line.points, options.smoothing || 0);
    if (calm !== line.points) picture.append(svg('path', {d : path(line.points), class : `raw c${line.colour}`}));
    picture.append(svg('path', {d : path(calm), class : `series c${line.colour}`}));
    if (calm.length === 1)
      picture.append(svg('circle', {cx : x(calm[0][0]), cy : y(calm[0][1]), r : 3, class : `dot c${line.colour}`}));
  }

  const values = shown.map(
      (line) => element(
          'span', {class : 'last'}, element('span', {class : `key k${line.colour}`}),
          element('span', {}, `${line.name} `.replace(/^ $/, '')), element('b', {})));
  const at = element('span', {class : 'at'});
  const cross = svg('line', {y1 : TOP, y2 : HEIGHT - BOTTOM, class : 'cross', visibility : 'hidden'});
  const box = svg('rect', {y : TOP, height : HEIGHT - TOP - BOTTOM, class : 'zoom', visibility : 'hidden'});
  picture.append(box, cross);
  let reading = null;
  const nearest = (points, value) => {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < value)
        low = middle;
      else
        high = middle;
    }
    return Math.abs(points[low][0] - value) <= Math.abs(points[high][0] - value) ? points[low] : points[high];
  };
  const read = (value) => {
    reading = value;
    cross.setAttribute('visibility', value === null ? 'hidden' : 'visible');
    at.textContent = value === null ? '' : options.time ? `at ${duration(value)}` : `step ${Math.round(value)}`;
    if (value !== null) [cross.setAttribute('x1', x(value)), cross.setAttribute('x2', x(value))];
    shown.forEach((line, i) => {
      const point = value === null ? line.points[line.points.length - 1] : nearest(line.points, value);
      values[i].lastChild.textContent = format(point[1]);
    });
  };
  read(null);
  const valueAt = (event) => {
    const frame = picture.getBoundingClientRect();
    const inside = ((event.clientX - frame.left) / frame.width) * WIDTH;
    return Math.min(last, Math.max(first, first + ((inside - LEFT) / (WIDTH - LEFT - RIGHT)) * (last - first)));
  };
  const snap = (value) => nearest(shown[0].points, value)[0];
  let dragged = null;
  picture.addEventListener('pointermove', (event) => {
    const value = valueAt(event);
    read(snap(value));
    if (dragged === null) return;
    box.setAttribute('visibility', 'visible');
    box.setAttribute('x', x(Math.min(dragged, value)));
    box.setAttribute('width', Math.abs(x(value) - x(dragged)));
  });
  picture.addEventListener('pointerleave', () => read(null));
  if (options.zoom) {
    picture.addEventListener('pointerdown', (event) => {
      if (event.pointerType === 'mouse') dragged = valueAt(event);
    });
    picture.addEventListener('pointerup', (event) => {
      const from = dragged, to = valueAt(event);
      dragged = null;
      box.setAttribute('visibility', 'hidden');
      if (from !== null && Math.abs(x(to) - x(from)) > 8) options.zoom(Math.min(from, to), Math.max(from, to));
    });
    picture.addEventListener('dblclick', () => options.zoom(null, null));
  }
  picture.addEventListener('keydown', (event) => {
    const list = shown[0].points, now = list.findIndex((p) => p[0] === reading);
    const next = {
      ArrowRight : now + 1,
      ArrowLeft : now < 0 ? list.length - 1 : now - 1,
      Home : 0,
      End : list.length - 1
    }[event.key];
    if (event.key === 'Escape') options.zoom ? options.zoom(null, null) : read(null);
    if (next === undefined) return;
    event.preventDefault();
    read(list[Math.min(list.length - 1, Math.max(0, next))][0]);
  });
  return element(
      'div', {class : 'chart'},
      element('h3', {title : options.help}, element('span', {}, options.title), at, values), picture);
}

// Drawn when it comes near the window: a hundred charts cost nothing until they are seen.
const draws = new WeakMap();
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    seen.unobserve(entry.target);
    entry.target.replaceChildren(draws.get(entry.target)() || '');
  }
}, {rootMargin : '300px'});
function whenSeen(draw) {
  const frame = element('div', {class : 'chart-frame'});
  draws.set(frame, draw);
  seen.observe(frame);
  return frame;
}

// runs: [{ name, curves }]. Points of one figure, of the steps in between where the reader zoomed in.
function linesOf(runs, stage, figure, {time, from, to, names}) {
  return runs
      .map((run, i) => {
        const curve = run.curves[stage];
        const column = curve && curve.figures[figure];
        if (!column) return null;
        const times = curve.figures.time || [];
        const x = (row) =>
            (time ? times[row] - times[0] + (curve.figures.seconds ? curve.figures.seconds[0] || 0 : 0) :
                    curve.step[row]);
        const points = [];
        column.forEach((value, row) => {
          const at = x(row);
          if (isNumber(value) && isNumber(at) && (from === null || (at >= from && at <= to)))
            points.push([ at, value ]);
        });
        points.sort((a, b) => a[0] - b[0]);
        return {name : names ? run.name : '', colour : i % COLOURS, points};
      })
      .filter(Boolean);
}

// Names of a stage's figures: what one looks at first, then the rest by name.
function figuresOf(runs, stage) {
  const all = new Set(runs.flatMap((run) => Object.keys((run.curves[stage] || {figures : {}}).figures)));
  all.delete('time');
  const rank = (name) => (DEFAULTS.includes(name) ? DEFAULTS.indexOf(name) : DEFAULTS.length);
  return [...all ].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

const chosen = {
  filter : '',
  time : false,
  log : false,
  smoothing : 8,
  from : null,
  to : null
};

function stageCharts(runs, stage, help, options, figures) {
  const redraw = (from, to) => {
    Object.assign(chosen, {from, to});
    options.redraw();
  };
  return element(
      'div', {class : 'charts'},
      figures.map(
          (figure) => whenSeen(() => chart(linesOf(runs, stage, figure, {...options, names : runs.length > 1}), {
                                 ...options,
                                 title : figure,
                                 help : help[figure],
                                 share : isShare(figure),
                                 zoom : options.redraw && redraw
                               }))));
}

function curvesView(runs, help, redraw) {
  const options = {...chosen, redraw};
  const set = (name) => (value) => {
    chosen[name] = value;
    redraw();
  };
  const bar = element(
      'form', {class : 'filters', submit : (event) => event.preventDefault()},
      field('figures', chosen.filter, set('filter'), {placeholder : 'part of a name: kl, _s, tokens'}),
      chooser(
          'over', chosen.time ? 'time' : 'step', [ [ 'step', 'steps' ], [ 'time', 'time' ] ],
          (v) => {
            Object.assign(chosen, {time : v === 'time', from : null, to : null});
            redraw();
          }),
      chooser(
          'scale', chosen.log ? 'log' : 'linear', [ [ 'linear', 'linear' ], [ 'log', 'logarithmic' ] ],
          (v) => set('log')(v === 'log')),
      chooser(
          'smoothing', String(chosen.smoothing),
          [ [ '0', 'none' ], [ '4', 'little' ], [ '8', 'some' ], [ '20', 'much' ] ],
          (v) => set('smoothing')(Number(v))),
      chosen.from === null ? null :
                             element(
                                 'button', {
                                   type : 'button',
                                   click : () => {
                                     Object.assign(chosen, {from : null, to : null});
                                     redraw();
                                   }
                                 },
                                 'whole range'));
  const stages = [...new Set(runs.flatMap((run) => Object.keys(run.curves))) ].sort();
  const parts = stages.map((stage) => {
    const figures = figuresOf(runs, stage).filter((name) => name.includes(chosen.filter));
    const warnings = runs.flatMap((run) => (run.curves[stage] || {warnings : []}).warnings);
    const every = Math.max(...runs.map((run) => (run.curves[stage] || {every : 1}).every));
    return figures.length === 0 ?
        null :
        section(
            stage === 'sft' ? 'SFT' : stage.toUpperCase(),
            warnings.length ?
                element('p', {class : 'warning'}, `Step ${warnings[warnings.length - 1].join(': ')}`) :
                null,
            every > 1 ? note(`every ${every}th step is shown`) : null,
            stageCharts(runs, stage, help, options, figures));
  });
  if (stages.length === 0) parts.push(note('No step has finished yet.'));
  return [
    bar, note('Point at a chart, or use the arrow keys, to read values; drag to zoom in, double-click to see all.'),
    ...parts
  ];
}
