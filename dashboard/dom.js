// Elements as values, and a page that is brought to match them. What stays the same stays the same element, so that focus, selection and
// opened details outlive an update. Text becomes text nodes and attribute values alone: nothing here parses markup.

const SVG = 'http://www.w3.org/2000/svg'

/**
 * @param {string} tag
 * @param {Record<string, unknown> | null} props - `key` finds the element again, `on…` are functions, all else are attributes; false and undefined: absent
 * @param {...unknown} children
 */
export function h(tag, props, ...children) {
  return {
    tag,
    props: props ?? {},
    children: children.flat(Number.POSITIVE_INFINITY).filter((one) => one !== null && one !== undefined && one !== false)
  }
}

/** Brings the children of `parent` to match `wanted`. */
export function patch(parent, ...wanted) {
  const vnodes = wanted.flat(Number.POSITIVE_INFINITY).filter((one) => one !== null && one !== undefined && one !== false)
  const keyed = new Map()
  const loose = []
  for (const node of parent.childNodes) {
    if (node.rookeryKey === undefined) loose.push(node)
    else keyed.set(node.rookeryKey, node)
  }
  let at = parent.firstChild
  for (const vnode of vnodes) {
    const node = reused(vnode, keyed, loose) ?? created(vnode, parent)
    if (typeof vnode === 'object') update(node, vnode)
    else if (node.nodeValue !== String(vnode)) node.nodeValue = String(vnode)
    if (node === at) at = at.nextSibling
    else parent.insertBefore(node, at)
  }
  for (const node of [...keyed.values(), ...loose]) node.remove()
}

function reused(vnode, keyed, loose) {
  const name = typeof vnode === 'object' ? vnode.tag : '#text'
  const fits = (node) => node.nodeName.toLowerCase() === name.toLowerCase()
  const key = typeof vnode === 'object' ? vnode.props.key : undefined
  if (key !== undefined) {
    const node = keyed.get(key)
    if (node === undefined || !fits(node)) return undefined
    keyed.delete(key)
    return node
  }
  const i = loose.findIndex(fits)
  return i < 0 ? undefined : loose.splice(i, 1)[0]
}

function created(vnode, parent) {
  if (typeof vnode !== 'object') return document.createTextNode(String(vnode))
  const isSvg = vnode.tag === 'svg' || (parent.namespaceURI === SVG && parent.tagName !== 'foreignObject')
  const node = isSvg ? document.createElementNS(SVG, vnode.tag) : document.createElement(vnode.tag)
  if (vnode.props.key !== undefined) node.rookeryKey = vnode.props.key
  return node
}

function update(node, { props, children }) {
  const before = node.rookeryProps ?? {}
  for (const name of Object.keys(before)) if (!(name in props)) set(node, name, undefined)
  for (const [name, value] of Object.entries(props)) if (before[name] !== value) set(node, name, value)
  node.rookeryProps = props
  patch(node, children)
}

function set(node, name, value) {
  if (name === 'key') return
  if (name.startsWith('on')) node[name] = typeof value === 'function' ? value : null
  else if (name === 'value') node.value = value ?? ''
  else if (name === 'width-share') node.style.width = `${Math.round(Math.min(1, Math.max(0, Number(value) || 0)) * 1000) / 10}%`
  else if (value === undefined || value === null || value === false) node.removeAttribute(name)
  else node.setAttribute(name, value === true ? '' : String(value))
}
