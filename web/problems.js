// Problems by how often they are solved as training goes on; outcomes, flags and cheats over the steps.

function strip(rates, label) {
  const picture = svg('svg', {
    viewBox : `0 0 ${rates.length * 8} 18`,
    preserveAspectRatio : 'none',
    class : 'strip',
    role : 'img',
    'aria-label' : label
  });
  rates.forEach((rate, i) => {
    if (rate === null) return;
    picture.append(
        svg('rect', {x : i * 8, y : 0, width : 7, height : 18, class : 'strip-back'}),
        svg('rect', {x : i * 8, y : 18 - 18 * rate, width : 7, height : 18 * rate, class : 'strip-bar'}));
  });
  return picture;
}

async function problemsView(query) {
  const run = query.get('run') || '', search = query.get('search') || '', offset = Number(query.get('offset') || 0);
  const answer = await api('problems', {run, search, offset, limit : PAGE});
  const rows = answer.rows.map(
      (row) => element(
          'tr', {},
          element(
              'th', {scope : 'row'},
              element('a', {href : link('trajectories', {run, problem : row.problem_id})}, row.problem_id)),
          [
            percent(row.correct / row.samples), short(row.samples), row.cheats ? short(row.cheats) : '',
            row.best_speedup > 0 ? `${short(row.best_speedup)}×` : ''
          ].map((text) => element('td', {class : 'number'}, text)),
          element(
              'td', {class : 'chart-cell'},
              strip(
                  row.rates,
                  `solved over the steps: ${
                      row.rates.map((rate) => (rate === null ? 'not tried' : percent(rate))).join(', ')}`))));
  const go = (value) => {
    location.hash = link('problems', {search : value, offset : null}, query);
  };
  return [
    element(
        'form', {class : 'filters', submit : (event) => event.preventDefault()},
        field('search', search, go, {placeholder : 'part of a name', id : 'search'})),
    section(
        'Problems, the least solved first',
        rows.length === 0 ?
            note('No trajectory of a problem is here.') :
            table(
                'problems',
                [
                  [ 'problem', '' ], [ 'solved', 'number' ], [ 'samples', 'number' ], [ 'cheats', 'number' ],
                  [ 'best', 'number' ],
                  [ `share solved, steps ${answer.first_step} to ${answer.last_step}`, 'chart-cell' ]
                ],
                rows),
        pager('problems', query, offset, rows.length, answer.matched),
        note(
            'Of the trajectories that trajectories.jsonl keeps. A bar is a part of the steps; ' +
            'where there is none, the problem was not tried.'))
  ];
}

async function flagsView(query) {
  const run = query.get('run') || '';
  const answer = await api('flags', {run});
  const names = Object.keys(OUTCOMES).filter((name) => answer.outcomes[name]);
  if (names.length === 0) return [ note('No trajectory yet.') ];
  const buckets = answer.outcomes[names[0]].length, steps = answer.last_step - answer.first_step + 1;
  const bars = Array
                   .from(
                       {length : buckets},
                       (_, i) => {
                         const all = sum(names.map((name) => answer.outcomes[name][i]));
                         return {
                           step : answer.first_step + Math.floor((i * Math.max(steps, buckets)) / buckets),
                           last : 0,
                           count : all,
                           parts : names.map((name) => (all ? answer.outcomes[name][i] / all : 0))
                         };
                       })
                   .filter((bar) => bar.count > 0);
  const picture = stackedBars(
      bars, names.map((name) => [name, outcomeText(name)]), 'outcomes over the steps',
      (v) => `${Math.round(100 * v)} %`);
  names.forEach(
      (name, n) => picture.querySelectorAll(`rect.p${n}`).forEach((bar) => bar.setAttribute('class', `o-${name}`)));
  const legend = element(
      'p', {class : 'note legend'},
      names.map(
          (name) =>
              [element('span', {class : `swatch o-${name}`}),
               element(
                   'a', {href : link('trajectories', {run, outcome : name})},
                   `${outcomeText(name)} (${sum(answer.outcomes[name]).toLocaleString('en')})`),
               ' ']));
  const rows =
      [...answer.flags ].sort((a, b) => b.cheat - a.cheat || b.trajectories - a.trajectories).map((flag) => {
        const most = Math.max(...flag.counts);
        return element(
            'tr', {},
            element(
                'th', {scope : 'row'},
                element('a', {href : link('trajectories', {run, flag : flag.name})}, flag.name)),
            element('td', {}, badge(flag.cheat ? 'cheat' : 'doubt', flag.cheat ? 'red' : 'yellow')),
            element('td', {class : 'number'}, short(flag.trajectories)),
            element(
                'td', {class : 'chart-cell'},
                strip(
                    flag.counts.map((count) => (most ? count / most : 0)),
                    `over the steps: ${flag.counts.join(', ')}`)));
      });
  return [
    section('Outcomes over the steps', picture, legend),
    section(
        'Flags and cheats',
        rows.length ?
            table(
                'flags',
                [
                  [ 'flag', '' ], [ 'kind', '' ], [ 'trajectories', 'number' ], [ 'over the steps', 'chart-cell' ]
                ],
                rows) :
            note('None was raised.'),
        note('A cheat makes a candidate worth nothing; a doubt is reported only.'))
  ];
}
