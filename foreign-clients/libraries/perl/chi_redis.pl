use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Helpers;
use CHI;

my $cache = CHI->new(driver => 'Redis', namespace => 'app', server => $address);
my $calls = 0;
my $made = sub { $cache->compute('made', '1 min', sub { ++$calls }) };
show('compute', $made->(), $made->(), $calls);
show('set', $cache->set('a', { n => 1 }, '1 min'), $cache->get('a'));
show('many', $cache->set_multi({ x => 1, y => 2 }), $cache->get_multi_hashref(['x', 'y']));
$cache->remove('a');
show('removed', $cache->get('a'), [sort $cache->get_keys]);
