# What every program needs: the server's address, and lines to be compared.

require 'json'
HOST = ENV.fetch('HOST')
PORT = ENV.fetch('PORT').to_i
ADDRESS = "#{HOST}:#{PORT}"
URL = "redis://#{ADDRESS}/0"
$VERBOSE = nil

# One line of the program's result.
def show(what, *values)
  puts "#{what}: #{values.map(&:to_json).join(' ')}"
  $stdout.flush
end

# Whether a TTL is what was set, but for a moment that has gone by.
def near(seconds, expected)
  seconds.between?(expected - 3, expected)
end
