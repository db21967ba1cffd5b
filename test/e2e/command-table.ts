/** What shows that a command works, and a way in which it fails. */
interface CommandRow {
  /** file below test/ and part of the test's title */
  success: string
  /** words after the command, its exit code and the error's code; without --data on a running node */
  failure: [argv: string[], exit: number, code: string]
}

const NOBODY = ['--data', 'TEMP']
const ID = '0199b2c0-0000-7000-8000-000000000000'
const SPACE = 'org.agentnet/nothing.here@7'

export const COMMANDS: Readonly<Record<string, CommandRow>> = {
  init: {
    success: 'e2e/config.test.ts › shows every setting with its value',
    failure: [['--agent', 'Bob', ...NOBODY], 2, 'AGENT_NAME_INVALID']
  },
  start: { success: 'e2e/cli.test.ts › SIGTERM ends within 5 s', failure: [NOBODY, 3, 'NOT_INITIALISED'] },
  'config show': { success: 'e2e/config.test.ts › shows every setting with its value', failure: [['ttl'], 2, 'SETTING_UNKNOWN'] },
  'config check': {
    success: 'e2e/config.test.ts › checks a file without starting',
    failure: [['/no/such/file.yaml'], 3, 'CONFIG_UNREADABLE']
  },
  'config set': {
    success: 'e2e/config.test.ts › writes a setting between the comments',
    failure: [['sessionsMax', 'none'], 3, 'CONFIG_INVALID']
  },
  'config unset': { success: 'e2e/config.test.ts › writes a setting between the comments', failure: [['ttl'], 2, 'SETTING_UNKNOWN'] },
  'config edit': { success: 'e2e/config.test.ts › opens an editor', failure: [[], 2, 'EDITOR_UNKNOWN'] },
  'config reload': { success: 'e2e/config.test.ts › is read anew by a running node', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'config schema': { success: 'e2e/config.test.ts › gives a JSON Schema', failure: [['--frobnicate'], 2, 'USAGE'] },
  status: { success: 'e2e/cli.test.ts › tells in status what it offers', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  stop: { success: 'e2e/cli.test.ts › SIGTERM ends within 5 s', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'doctor network': { success: 'e2e/doctor.test.ts › tells a node that knows nobody', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'agent add': { success: 'e2e/cli.test.ts › adds agents, announces, joins', failure: [['alice'], 10, 'AGENT_EXISTS'] },
  'agent rotate': { success: 'e2e/cli.test.ts › gives an agent another identity', failure: [['nobody'], 5, 'AGENT_UNKNOWN'] },
  'agent list': { success: 'e2e/cli.test.ts › gives an agent another identity', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'agent show': { success: 'e2e/commands.test.ts › `agent show` tells one agent', failure: [['nobody'], 5, 'AGENT_UNKNOWN'] },
  'agent export': {
    success: 'e2e/commands.test.ts › `agent export` and `agent import`',
    failure: [['nobody', '/tmp/never', '--no-passphrase'], 5, 'AGENT_UNKNOWN']
  },
  'agent import': {
    success: 'e2e/commands.test.ts › `agent export` and `agent import`',
    failure: [['/no/such/file', ...NOBODY], 5, 'BACKUP_UNKNOWN']
  },
  'space announce': { success: 'e2e/cli.test.ts › adds agents, announces, joins', failure: [['org.agentnet/energy'], 2, 'NAME_INVALID'] },
  'space update': {
    success: 'e2e/find.test.ts › show tells curator and trust',
    failure: [[SPACE, '--description', 'x'], 5, 'SPACE_NOT_CURATED']
  },
  'space handover': { success: 'e2e/find.test.ts › handover offers a space', failure: [[SPACE, 'STRANGER'], 5, 'SPACE_NOT_CURATED'] },
  'space tombstone': { success: 'e2e/find.test.ts › handover offers a space', failure: [[SPACE], 5, 'SPACE_NOT_CURATED'] },
  'space prune': { success: 'e2e/find.test.ts › prune hides a member', failure: [[SPACE, 'STRANGER'], 5, 'SPACE_NOT_CURATED'] },
  'space join': { success: 'e2e/cli.test.ts › adds agents, announces, joins', failure: [[SPACE], 5, 'SPACE_UNKNOWN'] },
  'space leave': { success: 'e2e/cli.test.ts › adds agents, announces, joins', failure: [[SPACE], 5, 'SPACE_NOT_JOINED'] },
  'space list': { success: 'e2e/cli.test.ts › adds agents, announces, joins', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'space show': { success: 'e2e/find.test.ts › show tells curator and trust', failure: [['Org.Agentnet/energy@1'], 2, 'NAME_INVALID'] },
  'space trust': { success: 'e2e/find.test.ts › handover offers a space', failure: [['org.agentnet/energy', 'nobody'], 2, 'NAME_INVALID'] },
  find: {
    success: 'e2e/find.test.ts › shows people who, where, how reachable',
    failure: [[SPACE, '--cursor', 'nonsense'], 2, 'CURSOR_INVALID']
  },
  resolve: { success: 'e2e/cli.test.ts › sets modes by either name', failure: [['did:key:zNope'], 2, 'DID_INVALID'] },
  discover: {
    success: 'e2e/discover.test.ts › finds an agent of another node without showing',
    failure: [['org.agentnet/energy'], 2, 'NAME_INVALID']
  },
  'point add': {
    success: 'e2e/discover.test.ts › registers a point, which another node',
    failure: [['printer', '--value', '{'], 2, 'USAGE']
  },
  'point remove': { success: 'e2e/discover.test.ts › registers a point, which another node', failure: [['nowhere'], 5, 'POINT_UNKNOWN'] },
  'point list': { success: 'e2e/discover.test.ts › registers a point, which another node', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'point grant': { success: 'e2e/discover.test.ts › registers a point, which another node', failure: [['nowhere'], 5, 'POINT_UNKNOWN'] },
  'point revoke': {
    success: 'e2e/commands.test.ts › `point revoke` ends a grant',
    failure: [['nowhere', '3f1c2a9b0d4e5f60'], 5, 'POINT_UNKNOWN']
  },
  'point show': {
    success: 'e2e/discover.test.ts › registers a point, which another node',
    failure: [['did:key:zNope', 'printer'], 2, 'DID_INVALID']
  },
  'point read': {
    success: 'e2e/discover.test.ts › registers a point, which another node',
    failure: [['did:key:zNope', 'printer'], 2, 'DID_INVALID']
  },
  'session open': { success: 'e2e/session.test.ts › opens under a contract', failure: [['did:web:example.net'], 2, 'DID_INVALID'] },
  'session list': { success: 'e2e/session.test.ts › opens under a contract', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'session show': { success: 'e2e/session.test.ts › opens under a contract', failure: [['0'.repeat(32)], 5, 'SESSION_UNKNOWN'] },
  'session watch': {
    success: 'e2e/session.test.ts › watch waits in a process of its own',
    failure: [['0'.repeat(32)], 5, 'SESSION_UNKNOWN']
  },
  'session close': { success: 'e2e/session.test.ts › opens under a contract', failure: [['xyz'], 2, 'PARAMS_INVALID'] },
  'state peers': { success: 'e2e/state.test.ts › lists the sessions and what each side', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'state get': { success: 'e2e/state.test.ts › what one side sets the other gets', failure: [['STRANGER'], 5, 'SESSION_UNKNOWN'] },
  'state set': {
    success: 'e2e/state.test.ts › what one side sets the other gets',
    failure: [['STRANGER', 'k', '1'], 5, 'SESSION_UNKNOWN']
  },
  'state watch': { success: 'e2e/state.test.ts › what one side sets the other gets', failure: [['STRANGER'], 5, 'SESSION_UNKNOWN'] },
  'group create': {
    success: 'e2e/group.test.ts › makes a group, invites, writes',
    failure: [['board', '--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  'group invite': { success: 'e2e/group.test.ts › makes a group, invites, writes', failure: [['nowhere', 'STRANGER'], 5, 'GROUP_UNKNOWN'] },
  'group remove': { success: 'e2e/group.test.ts › makes a group, invites, writes', failure: [['nowhere', 'STRANGER'], 5, 'GROUP_UNKNOWN'] },
  'group leave': { success: 'e2e/commands.test.ts › `group leave` ends a membership', failure: [['nowhere'], 5, 'GROUP_UNKNOWN'] },
  'group set': {
    success: 'e2e/group.test.ts › makes a group, invites, writes',
    failure: [['nowhere', 'k', 'no json'], 2, 'VALUE_INVALID']
  },
  'group show': { success: 'e2e/group.test.ts › makes a group, invites, writes', failure: [['nowhere'], 5, 'GROUP_UNKNOWN'] },
  send: {
    success: 'e2e/cli.test.ts › sends between its agents, queues for one that sleeps',
    failure: [['CARL', '--text', 'let me in', '--agent', 'alice'], 6, 'PERMISSION_DENIED']
  },
  'task list': { success: 'e2e/task.test.ts › are streamed by a send, listed', failure: [['nobody'], 5, 'AGENT_UNKNOWN'] },
  'task show': { success: 'e2e/task.test.ts › are streamed by a send, listed', failure: [['bob', 'no-such-task'], 5, 'TASK_NOT_FOUND'] },
  'task cancel': { success: 'e2e/task.test.ts › are canceled, and what cannot', failure: [['bob', 'no-such-task'], 5, 'TASK_NOT_FOUND'] },
  'task watch': { success: 'e2e/task.test.ts › are streamed by a send, listed', failure: [['bob', 'no-such-task'], 5, 'TASK_NOT_FOUND'] },
  'outbox list': { success: 'e2e/outbox.test.ts › takes a message over, shows where', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'outbox show': { success: 'e2e/outbox.test.ts › takes a message over, shows where', failure: [['ffff'], 5, 'OUTBOX_UNKNOWN'] },
  'outbox retry': { success: 'e2e/outbox.test.ts › takes a message over, shows where', failure: [[], 2, 'PARAMS_INVALID'] },
  'outbox drop': { success: 'e2e/outbox.test.ts › refuses above a bound and says which', failure: [['ffff'], 5, 'OUTBOX_UNKNOWN'] },
  'outbox watch': { success: 'e2e/outbox.test.ts › takes a message over, shows where', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  inbox: { success: 'e2e/cli.test.ts › lets a person answer for a manual agent', failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN'] },
  'inbox show': { success: 'e2e/cli.test.ts › lets a person answer for a manual agent', failure: [[ID], 5, 'TODO_UNKNOWN'] },
  'inbox complete': {
    success: 'e2e/cli.test.ts › lets a person answer for a manual agent',
    failure: [[ID, '--text', 'x'], 5, 'TODO_UNKNOWN']
  },
  'inbox fail': { success: 'e2e/commands.test.ts › `inbox fail`, `reject`, `trail`', failure: [[ID, '--reason', 'x'], 5, 'TODO_UNKNOWN'] },
  'inbox approve': { success: 'e2e/commands.test.ts › `inbox approve` lets one task', failure: [[ID], 5, 'TODO_UNKNOWN'] },
  'inbox dead': { success: 'e2e/commands.test.ts › `inbox fail`, `reject`, `trail`', failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN'] },
  'inbox retry': { success: 'e2e/commands.test.ts › `inbox fail`, `reject`, `trail`', failure: [[ID], 5, 'TODO_UNKNOWN'] },
  'inbox drop': { success: 'e2e/commands.test.ts › `inbox fail`, `reject`, `trail`', failure: [[ID], 5, 'TODO_UNKNOWN'] },
  'inbox reject': {
    success: 'e2e/commands.test.ts › `inbox fail`, `reject`, `trail`',
    failure: [[ID, '--reason', 'x'], 5, 'TODO_UNKNOWN']
  },
  'inbox trail': { success: 'e2e/commands.test.ts › `inbox fail`, `reject`, `trail`', failure: [[ID], 5, 'TODO_UNKNOWN'] },
  mcp: { success: 'e2e/agents.test.ts › MCP over stdio, through `rookery mcp`', failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN'] },
  sleep: {
    success: 'e2e/cli.test.ts › sends between its agents, queues for one that sleeps',
    failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  wake: {
    success: 'e2e/cli.test.ts › sends between its agents, queues for one that sleeps',
    failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  mode: { success: 'e2e/cli.test.ts › sets modes by either name', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  'mode set': { success: 'e2e/cli.test.ts › sets modes by either name', failure: [['hourly'], 2, 'USAGE'] },
  attach: { success: 'e2e/cli.test.ts › attaches a process until Ctrl-C', failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN'] },
  approve: { success: 'e2e/cli.test.ts › lists what waits for approval', failure: [[ID], 5, 'TODO_UNKNOWN'] },
  'friends request': {
    success: 'e2e/commands.test.ts › `friends request`, `show`, `approve`',
    failure: [['did:key:zNope'], 2, 'DID_INVALID']
  },
  'friends list': {
    success: 'e2e/commands.test.ts › `friends request`, `show`, `approve`',
    failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  'friends show': { success: 'e2e/commands.test.ts › `friends request`, `show`, `approve`', failure: [['STRANGER'], 5, 'FRIEND_UNKNOWN'] },
  'friends approve': {
    success: 'e2e/commands.test.ts › `friends request`, `show`, `approve`',
    failure: [['STRANGER'], 5, 'FRIEND_UNKNOWN']
  },
  'friends deny': { success: 'e2e/commands.test.ts › `friends request`, `show`, `approve`', failure: [['STRANGER'], 5, 'FRIEND_UNKNOWN'] },
  'friends remove': {
    success: 'e2e/commands.test.ts › `friends request`, `show`, `approve`',
    failure: [['STRANGER'], 5, 'FRIEND_UNKNOWN']
  },
  'grant create': {
    success: 'e2e/grant.test.ts › are made, shown, tuned and revoked',
    failure: [['self', '--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  'grant list': { success: 'e2e/grant.test.ts › are made, shown, tuned and revoked', failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN'] },
  'grant show': { success: 'e2e/commands.test.ts › `grant show` tells one grant', failure: [['ffff'], 5, 'GRANT_UNKNOWN'] },
  'grant revoke': { success: 'e2e/grant.test.ts › are made, shown, tuned and revoked', failure: [['ffff'], 5, 'GRANT_UNKNOWN'] },
  'grant tune': { success: 'e2e/grant.test.ts › are made, shown, tuned and revoked', failure: [['ffff'], 5, 'GRANT_UNKNOWN'] },
  'push list': { success: 'e2e/grant.test.ts › friend requests are listed, and answered', failure: [['--state', 'lost'], 2, 'USAGE'] },
  'push retry': { success: 'e2e/commands.test.ts › `push retry` tries', failure: [[ID, 'ffff'], 5, 'PUSH_UNKNOWN'] },
  'queue list': {
    success: 'e2e/cli.test.ts › sends between its agents, queues for one that sleeps',
    failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  'queue show': {
    success: 'e2e/cli.test.ts › shows, exports and drops what is queued',
    failure: [['ffffffff', '--agent', 'bob'], 5, 'RECORD_UNKNOWN']
  },
  'queue drop': {
    success: 'e2e/cli.test.ts › shows, exports and drops what is queued',
    failure: [['ffffffff', '--agent', 'bob'], 2, 'NOT_CONFIRMED']
  },
  'queue retry': {
    success: 'e2e/cli.test.ts › shows, exports and drops what is queued',
    failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  'queue export': {
    success: 'e2e/cli.test.ts › shows, exports and drops what is queued',
    failure: [['--agent', 'nobody'], 5, 'AGENT_UNKNOWN']
  },
  standing: {
    success: 'e2e/backup.test.ts › comes back from a backup that was made while it ran',
    failure: [['did:key:zNope'], 2, 'DID_INVALID']
  },
  'service install': {
    success: 'e2e/commands.test.ts › `service install`, `show` and `uninstall`',
    failure: [['--frobnicate'], 2, 'USAGE']
  },
  'service show': { success: 'e2e/commands.test.ts › `service install`, `show` and `uninstall`', failure: [['--frobnicate'], 2, 'USAGE'] },
  'service uninstall': { success: 'unit/service.test.ts › is written to where its manager looks', failure: [['--frobnicate'], 2, 'USAGE'] },
  backup: {
    success: 'e2e/backup.test.ts › comes back from a backup that was made while it ran',
    failure: [['/tmp/never.backup'], 2, 'PASSPHRASE_MISSING']
  },
  restore: {
    success: 'e2e/backup.test.ts › comes back from a backup that was made while it ran',
    failure: [['/no/such/file', ...NOBODY], 5, 'BACKUP_UNKNOWN']
  },
  demo: { success: 'e2e/demo.test.ts › three processes meet by topic', failure: [['--frobnicate'], 2, 'USAGE'] },
  'sim run': {
    success: 'e2e/sim.test.ts › joins, searches and talks among 20 real nodes',
    failure: [['second-contact'], 2, 'SCENARIO_UNKNOWN']
  },
  'sim replay': { success: 'e2e/sim.test.ts › write, check, run and run again', failure: [['BAD'], 3, 'SIM_REPORT_UNREADABLE'] },
  'sim check': { success: 'e2e/sim.test.ts › write, check, run and run again', failure: [['BAD'], 3, 'SCENARIO_INVALID'] },
  'sim new': { success: 'e2e/sim.test.ts › write, check, run and run again', failure: [['TEMP', '--from', 'churn'], 10, 'FILE_EXISTS'] },
  'sim schema': {
    success: 'e2e/sim.test.ts › write, check, run and run again',
    failure: [['--out', '/no/such/folder/x.json'], 9, 'SIM_OUT_UNWRITABLE']
  },
  'sim compare': {
    success: 'e2e/sim.test.ts › write, check, run and run again',
    failure: [['/no/such/a.json', '/no/such/b.json'], 3, 'SIM_REPORT_UNREADABLE']
  },
  'sim export': { success: 'e2e/sim.test.ts › write files for engines of others', failure: [['churn', '--to', 'nowhere'], 2, 'USAGE'] },
  'sim list': { success: 'e2e/sim.test.ts › tells the scenarios there are', failure: [['--frobnicate'], 2, 'USAGE'] },
  top: { success: 'e2e/dashboard.test.ts › prints once where nobody sits at a terminal', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  dashboard: { success: 'e2e/dashboard.test.ts › prints an address that signs one page in', failure: [NOBODY, 4, 'NODE_NOT_RUNNING'] },
  doctor: { success: 'e2e/care.test.ts › says what is wrong with a node that does not run', failure: [['--frobnicate'], 2, 'USAGE'] },
  'identity list': { success: 'e2e/care.test.ts › moves the key of a node under a passphrase', failure: [['--frobnicate'], 2, 'USAGE'] },
  'identity export': {
    success: 'e2e/care.test.ts › moves the key of a node under a passphrase',
    failure: [['/tmp/never.identity'], 2, 'PASSPHRASE_MISSING']
  },
  'identity import': {
    success: 'e2e/care.test.ts › moves the key of a node under a passphrase',
    failure: [['/no/such/file', ...NOBODY], 5, 'BACKUP_UNKNOWN']
  },
  disk: { success: 'e2e/care.test.ts › tell what lies there by kind', failure: [NOBODY, 5, 'NODE_UNKNOWN'] },
  compact: { success: 'e2e/care.test.ts › tell what lies there by kind', failure: [NOBODY, 5, 'NODE_UNKNOWN'] }
}
