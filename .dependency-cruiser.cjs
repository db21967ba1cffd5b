/** The layers of the project: sim → src → protocol, and a protocol/ that reaches nothing but pure packages. */
module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } } },
    { name: 'src-knows-no-sim', severity: 'error', from: { path: '^src/', pathNot: '^src/cli/' }, to: { path: '^sim/' } },
    {
      name: 'protocol-stands-alone',
      severity: 'error',
      from: { path: '^protocol/', pathNot: '\\.test\\.ts$' },
      to: { path: '^(src|sim|test|bench)/' }
    },
    {
      name: 'protocol-no-node',
      severity: 'error',
      from: { path: '^protocol/', pathNot: '\\.test\\.ts$' },
      to: { dependencyTypes: ['core'] }
    },
    {
      name: 'protocol-pure-packages-only',
      comment: 'allowed: codecs, curves and byte helpers that do no I/O',
      severity: 'error',
      from: { path: '^protocol/', pathNot: '\\.test\\.ts$' },
      to: {
        path: 'node_modules',
        pathNot: 'node_modules/(uint8arrays|multiformats|@noble/(ed25519|curves|hashes|ciphers)|@hpke/(core|common|dhkem-x25519))/'
      }
    },
    {
      name: 'browser-no-node',
      comment:
        'what a page runs names no module of Node; that nothing behind it does either is checked when it is bundled (packaging/browser/build.ts)',
      severity: 'error',
      from: {
        path: '^src/(browser|net/(create-host|libp2p-host|dht|multiaddrs|ip-ranges)|sessions|spaces|store/store|a2a/(remote|send-message|pss-binding))'
      },
      to: { dependencyTypes: ['core'] }
    },
    {
      name: 'product-without-tests',
      severity: 'error',
      from: { path: '^(protocol|src|sim)/', pathNot: '\\.test\\.ts$' },
      to: { path: '(^test/|\\.test\\.ts$)' }
    },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } }
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    moduleSystems: ['es6'],
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['node', 'import', 'types', 'default'],
      extensions: ['.ts', '.js', '.d.ts']
    }
  }
}
