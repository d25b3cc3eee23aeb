require_relative 'helpers'
require 'dalli'

c = Dalli::Client.new(ADDRESS, { socket_max_failures: 0 })
show 'set', c.set('a', { 'n' => 1 }, 60) ? true : false, c.get('a'), c.add('a', 2) ? true : false
show 'many', c.multi { c.set('x', 1); c.set('y', 2) } ? true : false, c.get_multi('x', 'none', 'y')
show 'count', c.incr('n', 1, 60, 5), c.incr('n', 4), c.decr('n', 1)
show 'cas', c.cas('x') { |value| value + 1 } ? true : false, c.get('x'), c.touch('x', 30) ? true : false
show 'fetch', c.fetch('made', 60) { 'once' }, c.fetch('made') { 'twice' }
show 'delete', c.delete('a'), c.get('a'), c.flush_all
