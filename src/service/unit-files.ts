/** What a service manager needs to know to run a node. */
export interface ServiceSpec {
  /** absolute path of the Node.js binary */
  nodePath: string
  /** absolute path of `bin/rookery.js` */
  launcherPath: string
  /** absolute */
  dataDir: string
  /** as the user, or as the machine's own service under an account of its own */
  scope: 'user' | 'system'
}

/** A path in a systemd command line: quoted, specifiers and variables not expanded. */
const systemdQuoted = (text: string) =>
  `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%').replaceAll('$', '$$$$')}"`
/** A path in a systemd setting that takes one. */
const systemdPath = (text: string) => text.replaceAll('%', '%%').replaceAll(' ', '\\x20')

/**
 * A systemd unit: starts after the network, restarts on failure with a pause that grows no storm, stops within the node's own 5 s, reads its settings
 * anew on reload, and may write to its data directory alone.
 */
export function systemdUnit({ nodePath, launcherPath, dataDir, scope }: ServiceSpec): string {
  const system = scope === 'system'
  return `[Unit]
Description=Rookery, the peer-to-peer node beside an AI agent
Documentation=https://www.npmjs.com/package/rookery
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart=${systemdQuoted(nodePath)} ${systemdQuoted(launcherPath)} start --data ${systemdQuoted(dataDir)}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5
# a wrong setting or a data directory in use does not mend itself
RestartPreventExitStatus=2 3 10
TimeoutStopSec=15
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
${
  system
    ? `User=rookery
Group=rookery
StateDirectory=rookery
StateDirectoryMode=0700
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
PrivateMounts=yes
RemoveIPC=yes
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
ReadWritePaths=${systemdPath(dataDir)}
`
    : ''
}
[Install]
WantedBy=${system ? 'multi-user.target' : 'default.target'}
`
}

const xml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

export const LAUNCHD_LABEL = 'dev.rookery.node'

/** A launchd agent: starts at login, starts again when the node ended by a fault, logs beside the data. */
export function launchdPlist({ nodePath, launcherPath, dataDir }: ServiceSpec): string {
  const argv = [nodePath, launcherPath, 'start', '--data', dataDir].map((one) => `    <string>${xml(one)}</string>`).join('\n')
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${LAUNCHD_LABEL}</string>
  <key>ProgramArguments</key>
  <array>
${argv}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>10</integer>
  <key>ExitTimeOut</key>
  <integer>15</integer>
  <key>Umask</key>
  <integer>63</integer>
  <key>SoftResourceLimits</key>
  <dict>
    <key>NumberOfFiles</key>
    <integer>65536</integer>
  </dict>
  <key>StandardErrorPath</key>
  <string>${xml(`${dataDir}/node.log`)}</string>
  <key>StandardOutPath</key>
  <string>/dev/null</string>
</dict>
</plist>
`
}
