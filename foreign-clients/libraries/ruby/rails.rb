# What a Rails application does with its cache.

def tried(cache)
  calls = 0
  made = -> { cache.fetch('made', expires_in: 60) { calls += 1 } }
  show 'fetch', made.call, made.call, calls
  show 'write', cache.write('a', { 'n' => 1 }, expires_in: 60) ? true : false, cache.read('a'), cache.exist?('a')
  cache.write_multi({ 'x' => 1, 'y' => 2 }, expires_in: 60)
  show 'many', cache.read_multi('x', 'none', 'y'), cache.fetch_multi('x', 'z') { |key| key * 2 }
  show 'count', cache.increment('n', 5), cache.increment('n', 2), cache.decrement('n', 1)
  show 'once', cache.write('x', 9, unless_exist: true) ? true : false, cache.read('x')
  show 'delete', cache.delete('x') ? true : false, cache.read('x')
end
