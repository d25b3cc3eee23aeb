require_relative 'helpers'
require 'rack'
require 'rack/mock'
require 'redis-rack'

app = lambda do |env|
  session = env['rack.session']
  session['visits'] = (session['visits'] || 0) + 1
  session.destroy if env['PATH_INFO'] == '/leave'
  [200, {}, [session['visits'].to_s]]
end
browser = Rack::MockRequest.new(Rack::Session::Redis.new(app, redis_server: "#{URL}/session", expire_after: 600))
cookie = nil
%w[/visit /visit /leave /visit].each do |path|
  answer = browser.get(path, 'HTTP_COOKIE' => cookie.to_s)
  cookie = answer['Set-Cookie'].split(';').first if answer['Set-Cookie']
  show path, answer.status, answer.body
end
