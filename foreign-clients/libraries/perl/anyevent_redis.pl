use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Helpers;
use AnyEvent::Redis;

my $r = AnyEvent::Redis->new(host => $host, port => $port);
show('set', $r->set('a', 1)->recv, $r->incr('a')->recv, $r->get('a')->recv);
show('hash', $r->hset('h', 'f', 'v')->recv, $r->hgetall('h')->recv);
