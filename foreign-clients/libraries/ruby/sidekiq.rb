require_relative 'helpers'
ENV['REDIS_URL'] = URL
require 'sidekiq'
require 'sidekiq/api'

class Sum
  include Sidekiq::Job
  def perform(one, other); end
end
id = Sum.perform_async(2, 3)
Sum.perform_in(3600, 1, 1)
job = Sidekiq::Queue.new.first
show 'queued', id == job.jid, job.args, Sidekiq::Queue.new.size, Sidekiq::ScheduledSet.new.size
require 'sidekiq/fetch'
work = Sidekiq.redis { |r| r.brpop('queue:default', timeout: 1) }
show 'fetched', JSON.parse(work[1])['args'], Sidekiq::Stats.new.enqueued
