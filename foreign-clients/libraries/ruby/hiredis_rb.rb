require_relative 'helpers'
require 'hiredis'

c = Hiredis::Connection.new
c.connect(HOST, PORT)
[%w[SET a 1 EX 60], %w[INCR a], %w[HSET h f v], %w[HGETALL h]].each { |command| c.write(command) }
show 'pipeline', c.read, c.read, c.read, c.read
