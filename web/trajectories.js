// Trajectories: filters and pages from the server, one beside the list, its turns side by side.

const PAGE = 50;
const OUTCOMES = {
  correct : 'green',
  wrong : 'yellow',
  not_compiled : 'red',
  cheat : 'red',
  failed : 'grey'
};
const outcomeText = (name) => name.replace('_', ' ').replace('not compiled', 'does not compile');

function badge(text, colour) {
  return element('span', {class : `badge ${colour}`}, text);
}

function verdictBadge(verdict) {
  if (!verdict) return badge('no verdict', 'red');
  const cheat = (verdict.flags || []).find((flag) => flag.cheat);
  if (cheat) return badge(`cheat: ${cheat.name}`, 'red');
  if (verdict.correct)
    return badge(verdict.speedup > 0 ? `correct, ${short(verdict.speedup)}×` : 'correct', 'green');
  if (verdict.compiled) return badge(verdict.error_kind || 'wrong', 'yellow');
  return badge(verdict.error_kind || verdict.stage || 'failed', 'red');
}

// Which lines of `a` and `b` the other has too: the longest common subsequence of what is between equal ends.
function commonLines(a, b) {
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail])
    tail++;
  const [n, m] = [ a.length - head - tail, b.length - head - tail ];
  const left = a.map((_, i) => i < head || i >= a.length - tail),
        right = b.map((_, i) => i < head || i >= b.length - tail);
  if (n * m > 4e6) return [ left, right ];  // beyond two thousand lines each: all of the middle is shown as changed
  const lengths = Array.from({length : n + 1}, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      lengths[i][j] =
          a[head + i] === b[head + j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  for (let i = 0, j = 0; i < n && j < m;) {
    if (a[head + i] === b[head + j])
      [left[head + i], right[head + j]] = [ true, true ], i++, j++;
    else if (lengths[i + 1][j] >= lengths[i][j + 1])
      i++;
    else
      j++;
  }
  return [ left, right ];
}

// Lines of code; those that the other side lacks are marked, by a sign too.
function markedCode(lines, common, sign) {
  return lines.map(
      (line, i) => element(
          'span', {class : common[i] ? 'line' : `line ${sign === '+' ? 'added' : 'removed'}`},
          common[i] ? '  ' : `${sign} `, coloured(line), '\n'));
}

function profileView(profile) {
  if (!profile || !Array.isArray(profile.kernels)) return null;
  const rows = profile.kernels.map((kernel) => element('tr', {}, element('th', {scope : 'row'}, kernel.name), [
                                     percent(kernel.share), `${short(kernel.ms)} ms`, kernel.registers,
                                     kernel.spilled_bytes, kernel.shared, kernel.warps, percent(kernel.occupancy)
                                   ].map((text) => element('td', {class : 'number'}, text))));
  const rate = (value, peak, unit) => (peak > 0 ? `${short(value / 1e9)} of ${short(peak / 1e9)} G${unit}` : null);
  const facts = [
    `torch's own kernels ${percent(profile.torch_share)}`, `no forward below ${short(profile.floor_ms)} ms`,
    rate(profile.bytes_per_s, profile.peak_bytes_per_s, 'B/s'),
    rate(profile.flops_per_s, profile.peak_flops_per_s, 'FLOP/s'),
    profile.throttled ? `throttled: ${profile.throttled}` : null
  ].filter(Boolean);
  return element(
      'div', {class : 'block'}, element('div', {class : 'label'}, 'profile'),
      table(
          'profile',
          [
            [ 'kernel', '' ], [ 'of the time', 'number' ], [ 'time', 'number' ], [ 'registers', 'number' ],
            [ 'spilled', 'number' ], [ 'shared', 'number' ], [ 'warps', 'number' ], [ 'occupancy', 'number' ]
          ],
          rows),
      note(facts.join(' · ')));
}

function turnFacts(turn, trajectory, index) {
  const verdict = turn.verdict || {};
  const advantage = (trajectory.advantages || [])[index], gained = (trajectory.turn_returns || [])[index];
  const time = (timing) => (timing && timing.samples > 0 ? `${short(timing.median)} ms` : null);
  return [
    `reward ${short(turn.reward)}`, isNumber(gained) ? `return ${short(gained)}` : null,
    isNumber(advantage) ? `advantage ${short(advantage)}` : null, turn.status,
    isNumber(turn.response_tokens_count) ? `${turn.response_tokens_count} tokens` : null,
    isNumber(turn.generate_s) ? `generated in ${short(turn.generate_s)} s` : null,
    isNumber(turn.evaluate_s) ? `judged in ${short(turn.evaluate_s)} s` : null,
    verdict.stage ? `reached: ${verdict.stage}` : null,
    isNumber(verdict.own_share) ? `own share ${percent(verdict.own_share)}` : null,
    time(verdict.runtime) ? `${time(verdict.runtime)} against ${time(verdict.ref_runtime) || '–'}` : null
  ].filter(Boolean)
      .join(' · ');
}

function turnColumn(trajectory, index, common, sign) {
  const turn = trajectory.turns[index], verdict = turn.verdict || null;
  const lines = (turn.code || '').split('\n');
  const flags = ((verdict && verdict.flags) ||
                 []).map((flag) => `${flag.cheat ? 'cheat' : 'doubt'} ${flag.name}: ${flag.evidence}`);
  const targets = Object.entries((verdict && verdict.compile_targets) || {})
                      .filter(([, text ]) => text !== 'ok')
                      .map(([ name, text ]) => `${name}: ${text}`);
  return element(
      'div', {class : 'turn'},
      element('h3', {}, `Turn ${index + 1} of ${trajectory.turns.length} `, verdictBadge(verdict)),
      element('p', {class : 'facts'}, turnFacts(turn, trajectory, index)),
      turn.code ?
          block('code', turn.code, {content : common ? markedCode(lines, common, sign) : coloured(turn.code)}) :
          block('answer (no code found)', turn.text, {wrap : true}),
      turn.feedback ? block('what the model was told', turn.feedback, {wrap : true}) :
                      block('diagnostics', verdict && verdict.diagnostics, {wrap : true}),
      profileView(verdict && verdict.profile), block('flags', flags.join('\n'), {wrap : true}),
      block('does not compile for', targets.join('\n'), {wrap : true}),
      turn.code && turn.text ? element(
                                   'details', {}, element('summary', {}, 'the whole answer'),
                                   block('answer', turn.text, {wrap : true})) :
                               null);
}

function turnsView(trajectory, pair, choose) {
  const turns = trajectory.turns || [];
  if (turns.length === 0) return note('it has no turn');
  if (turns.length === 1) return turnColumn(trajectory, 0);
  const [left, right] = pair;
  const names = turns.map((_, i) => [String(i), `turn ${i + 1}`]);
  const [common, also] = commonLines((turns[left].code || '').split('\n'), (turns[right].code || '').split('\n'));
  return element(
      'div', {},
      element(
          'div', {class : 'filters'}, chooser('left', String(left), names, (v) => choose([ Number(v), right ])),
          chooser('right', String(right), names, (v) => choose([ left, Number(v) ]))),
      element(
          'div', {class : 'pair'}, turnColumn(trajectory, left, common, '-'),
          turnColumn(trajectory, right, also, '+')));
}

// null where the run does not hold it.
async function problemOf(run, id) {
  try {
    return await api('problem', {run, id});
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

async function trajectoryView(query) {
  const run = query.get('run') || '', index = query.get('index');
  const trajectory = await api('trajectory', {run, index});
  if (!trajectory) return note('this report does not hold that trajectory');
  const problem = trajectory.problem_source ? {source : trajectory.problem_source} :
                                              await problemOf(run, trajectory.problem_id);
  const turns = element('div', {});
  const choose = (pair) => turns.replaceChildren(turnsView(trajectory, pair, choose));
  const count = (trajectory.turns || []).length;
  choose([ Math.max(0, count - 2), Math.max(0, count - 1) ]);
  const list = link('trajectories', {index : null}, query);
  return element(
      'article', {class : 'detail', 'aria-label' : 'trajectory'},
      element('p', {}, element('a', {href : list}, '← back to the list')),
      element('h2', {}, String(trajectory.problem_id)),
      element(
          'p', {class : 'facts'},
          [
            `${trajectory.id}`, `step ${trajectory.step ?? '–'}`, `reward ${short(trajectory.reward)}`,
            plural(count, 'turn')
          ].join(' · ')),
      problem && problem.source ? element(
                                      'details', {}, element('summary', {}, 'the problem: its PyTorch module'),
                                      block('problem', problem.source, {code : true})) :
                                  null,
      turns);
}

function trajectoryFilters(query, flagNames) {
  const go = (changes) => {
    location.hash = link('trajectories', {...changes, offset : null, index : null}, query);
  };
  const now = (name) => query.get(name) || '';
  const set = (name) => (value) => go({[name] : value});
  const step = {type : 'number', min : 0, class : 'narrow'};
  return element(
      'form', {class : 'filters', submit : (event) => event.preventDefault()},
      field('search', now('search'), set('search'), {placeholder : 'problem or id', id : 'search'}),
      chooser(
          'outcome', now('outcome'),
          [ [ '', 'any' ], ...Object.keys(OUTCOMES).map((name) => [name, outcomeText(name)]) ], set('outcome')),
      chooser(
          'flag', now('flag'),
          [
            [ '', 'any' ], ...[...new Set([...flagNames, now('flag') ])].filter(Boolean).map((name) => [name, name])
          ],
          set('flag')),
      field('turns', now('turns'), set('turns'), step),
      field('from step', now('first_step'), set('first_step'), step),
      field('to step', now('last_step'), set('last_step'), step),
      chooser(
          'order', now('order') || 'newest',
          [
            [ 'newest', 'newest first' ], [ 'oldest', 'oldest first' ], [ 'reward', 'by reward' ],
            [ 'speedup', 'by speedup' ]
          ],
          set('order')),
      now('problem') ?
          element('button', {type : 'button', click : () => go({problem : null})}, `only ${now('problem')} ✕`) :
          null);
}

function pager(view, query, offset, shown, matched) {
  const to = (at) => link(view, {offset : at > 0 ? at : null, index : null}, query);
  return element(
      'p', {class : 'pager'}, offset > 0 ? element('a', {href : to(Math.max(0, offset - PAGE))}, '← before') : null,
      element(
          'span', {},
          shown ? `${(offset + 1).toLocaleString('en')} to ${(offset + shown).toLocaleString('en')} of ${
                      matched.toLocaleString('en')}` :
                  'none'),
      offset + shown < matched ? element('a', {href : to(offset + PAGE)}, 'after →') : null);
}

async function trajectoriesView(query) {
  const offset = Number(query.get('offset') || 0), chosenIndex = query.get('index');
  const asked = Object.fromEntries([...query ].filter(([ name ]) => name !== 'index'));
  const answer = await api('trajectories', {...asked, offset, limit : PAGE});
  const rows = answer.rows.map(
      (row) => element(
          'li', {},
          element(
              'a', {
                href : link('trajectories', {index : row.index}, query),
                class : 'row',
                'aria-current' : String(row.index) === chosenIndex ? 'true' : false
              },
              element('b', {}, row.problem_id),
              badge(
                  row.outcome === 'correct' && row.speedup > 0 ? `correct, ${short(row.speedup)}×` :
                                                                 outcomeText(row.outcome),
                  OUTCOMES[row.outcome]),
              row.flags.map((flag) => badge(flag, 'grey')),
              element(
                  'span', {class : 'facts'},
                  `step ${row.step} · reward ${short(row.reward)} · ${plural(row.turns, 'turn')} · ${row.id}`))));
  const reading = answer.indexed_bytes < answer.bytes ?
      `, reading on: ${percent(answer.indexed_bytes / answer.bytes)} of the file` :
      '';
  const list = element(
      'div', {class : 'list'}, note(`${answer.total.toLocaleString('en')} in all${reading}`),
      element('ol', {class : 'rows'}, rows), pager('trajectories', query, offset, rows.length, answer.matched));
  const detail = chosenIndex === null ? null : await trajectoryView(query);
  return [
    trajectoryFilters(query, answer.flag_names),
    element('div', {class : chosenIndex === null ? 'master' : 'master open'}, list, detail)
  ];
}
