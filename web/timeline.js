// Where the time of each step went, part by part: what waited for whom.

const BARS = 120;
// Of an RL step in the order in which they happen; `rest` is what no part has.
const RL_PARTS = [
  [ 'collect_s', 'wait for groups (engines and evaluator work)' ], [ 'seconds_fetch', 'fetch and read' ],
  [ 'seconds_wait', 'wait for the shared device' ], [ 'seconds_pack', 'pack and copy' ],
  [ 'seconds_scores', 'log-probabilities' ], [ 'seconds_forward', 'forward' ],
  [ 'seconds_loss', 'loss' ], [ 'seconds_backward', 'backward' ], [ 'seconds_update', 'optimizer' ],
  [ 'train_rest', 'rest of the training request' ], [ 'sync_s', 'weights to the engines' ],
  [ 'rest', 'between these' ]
];

// Seconds of each of RL_PARTS; value(name) is a figure of one step, or its sum over all.
function partsOf(curve, value) {
  const inside = sum(RL_PARTS.slice(1, 9).map(([ name ]) => value(name)));
  const train = curve.figures.train_s ? value('collect_s') + Math.max(value('train_s'), inside) + value('sync_s') :
                                        inside;
  const known = {
    train_rest : Math.max(0, value('train_s') - inside),
    rest : Math.max(0, value('seconds') - train)
  };
  return RL_PARTS.map(([ name ]) => (name in known ? known[name] : value(name)));
}

// [{ step, parts: [seconds], seconds }], a mean over neighbours where there are many steps.
function barsOf(curve, parts) {
  const column = (name) => curve.figures[name] || [];
  const rows = curve.step.map(
      (step, i) =>
          ({step, parts : partsOf(curve, (name) => (isNumber(column(name)[i]) ? column(name)[i] : 0))}));
  const size = Math.ceil(rows.length / BARS);
  const bars = [];
  for (let i = 0; i < rows.length; i += size) {
    const some = rows.slice(i, i + size);
    bars.push({
      step : some[0].step,
      last : some[some.length - 1].step,
      parts : parts.map((_, n) => sum(some.map((row) => row.parts[n])) / some.length),
      count : some.length
    });
  }
  return bars;
}

function stackedBars(bars, parts, label, format) {
  // On a phone it is drawn for its width: a wide picture made small could not be read.
  const [width, height, left, bottom] = [ innerWidth > 760 ? 900 : 400, 240, 52, 24 ];
  const most = Math.max(...bars.map((bar) => sum(bar.parts)), 1e-9);
  const y = (value) => (height - bottom - 8) * (value / (most * 1.05));
  const each = (width - left - 8) / bars.length;
  const picture =
      svg('svg', {viewBox : `0 0 ${width} ${height}`, role : 'img', 'aria-label' : label, class : 'bars'});
  for (const tick of niceTicks(0, most, 4)) {
    picture.append(
        svg('line', {
          x1 : left,
          x2 : width - 8,
          y1 : height - bottom - y(tick),
          y2 : height - bottom - y(tick),
          class : 'axis'
        }),
        svg('text', {x : left - 6, y : height - bottom - y(tick) + 4, 'text-anchor' : 'end', class : 'tick'},
            format(tick)));
  }
  bars.forEach((bar, i) => {
    let below = 0;
    const column = svg('g', {});
    const range = bar.last > bar.step ? `steps ${bar.step} to ${bar.last}` : `step ${bar.step}`;
    column.append(svg('title', {}, [
      range,
      ...parts.map(([, text ], n) => (bar.parts[n] > 0 ? `${text}: ${format(bar.parts[n])}` : null)).filter(Boolean)
    ].join('\n')));
    bar.parts.forEach((value, n) => {
      if (value <= 0) return;
      column.append(svg('rect', {
        x : left + i * each,
        width : Math.max(0.5, each - (each > 4 ? 1 : 0)),
        y : height - bottom - y(below + value),
        height : y(value),
        class : `p${n}`
      }));
      below += value;
    });
    picture.append(column);
  });
  for (const i of niceTicks(0, bars.length - 1 || 1, 6).filter((n) => Number.isInteger(n) && bars[n])) {
    picture.append(
        svg('text', {x : left + (i + 0.5) * each, y : height - 7, 'text-anchor' : 'middle', class : 'tick'},
            bars[i].step));
  }
  return element('div', {class : 'chart'}, picture);
}

function waiting(curve) {
  const total = (name) => curve.sums[name] || 0;
  const all = total('seconds'), wait = total('collect_s'), train = total('train_s'), sync = total('sync_s');
  if (!(wait > 0)) return null;
  const lines = [
    `The trainer waited for groups for ${duration(wait)} of ${duration(all)} (${percent(wait / all)}).`,
    `New weights took ${duration(sync)} (${percent(sync / all)}); training ${duration(train)} (${
        percent(train / all)}), in which the engines ` +
        'have nothing to do unless rl.max_staleness lets them run ahead.'
  ];
  const generate = total('generate_request_s'), judge = total('evaluate_request_s');
  if (generate + judge > 0) {
    lines.push(
        `While groups were made, ${short(generate / wait)} requests waited for an engine and ${
            short(judge / wait)} for the evaluator, on average: ` +
        `${generate > judge ? 'generation' : 'judging'} is the longer part.`);
  }
  if (total('seconds_communication') > 0)
    lines.push(`Rank 0's device stood still for other ranks for ${duration(total('seconds_communication'))}.`);
  return element('ul', {class : 'facts-list'}, lines.map((line) => element('li', {}, line)));
}

function timelineView(curves) {
  const stages = Object.entries(curves).filter(([, curve ]) => curve.step.length > 0 && curve.figures.seconds);
  if (stages.length === 0) return [ note('No step has finished yet.') ];
  return stages.sort(([ a ]) => (a === 'rl' ? -1 : 1)).map(([ stage, curve ]) => {
    const parts = RL_PARTS;  // of SFT: those that it has
    const bars = barsOf(curve, parts);
    const totals = partsOf(curve, (name) => curve.sums[name] || 0);  // of all steps, also those that are not drawn
    const all = sum(totals);
    const rows =
        parts.map(([, text ], n) => ({text, seconds : totals[n], n}))
            .filter((row) => row.seconds > 0)
            .map(
                (row) => element(
                    'tr', {},
                    element('th', {scope : 'row'}, element('span', {class : `swatch p${row.n}`}), row.text),
                    element('td', {class : 'number'}, short(row.seconds)),
                    element('td', {class : 'number'}, percent(row.seconds / all))));
    return section(
        `${stage === 'sft' ? 'SFT' : stage.toUpperCase()}: seconds of a step, by part`, waiting(curve),
        stackedBars(bars, parts, `seconds of each ${stage} step by part`, (v) => `${short(v)} s`),
        bars.some((bar) => bar.count > 1) ?
            note(`a bar is the mean of ${Math.ceil(curve.step.length / BARS)} steps; point at one for its parts`) :
            note('point at a bar for its parts'),
        table(
            `parts of the ${stage} steps`, [ [ 'part', '' ], [ 'seconds', 'number' ], [ 'share', 'number' ] ],
            rows));
  });
}
